// Package sqlfile keeps one SQLite file open for a program that owns it: a writer
// with group commit, readers beside it, and a schema that says whose file it is.
//
// # One writer
//
// SQLite lets one connection write at a time and makes a commit durable with an
// fsync, which costs as much for one row as for a thousand. So one goroutine
// owns the only writing connection, and everything that writes comes to it as a
// function in a queue:
//
//	Write, Enqueue --> queue (first in, first out)
//	                     |  all that wait, bounded in bytes
//	                     v
//	    BEGIN   fn  fn  fn  ...   COMMIT + fsync   --> answers, in order
//
// A group is what came while the previous one was being synced. No function waits
// for a timer: an idle store answers after one fsync, and a busy one shares each
// fsync among all that wait. Every function but a group's first runs under a
// savepoint, so that its failure undoes its own statements and no others.
//
// Handing each caller a transaction of its own was rejected: with
// synchronous=FULL it pays an fsync per call, and callers beside each other
// spend their time in SQLite's busy handler, which sleeps and is not fair.
//
// # Outcomes
//
// An answer of nil means that the commit is on disk. Any other means that
// nothing of the function was kept, but for [engine.ErrUnknown]: the commit
// itself failed, or the caller's context ended while the function ran. Only
// reading back can tell then, and a read cannot be too early to be safe: the
// function's fate is sealed before any later function of the queue runs.
//
// # Reads
//
// Reads run beside the writer on connections of their own. WAL mode gives each
// query a snapshot of everything committed before it began.
package sqlfile
