// Package failpoint lets a test end a process, or have an error returned, at an
// exact boundary of an event's way: between a confirm and its acknowledgement,
// for one. Only a binary built with the tag failpoints has any; in every other
// one [Enabled] is a false constant, the functions are empty and inlined away,
// and no environment variable is looked at.
//
// In a tagged binary KEYFOLD_FAILPOINTS arms points, separated by semicolons:
//
//	before_ack=exit:3;phrase=error:20/100;after_swap=sleep(2s):1
//
// arms three: the third acknowledgement kills the process with SIGKILL, the 20th
// search phrase and then every 100th fails, and the first write is followed by
// two seconds of nothing. KEYFOLD_FAILPOINT_LOG names a file that gets a line,
// "name action", when a point acts for the first time, so that a run can tell
// which of its points were never met.
package failpoint
