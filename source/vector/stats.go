package vector

import "sync/atomic"

// Stats counts since the start. Its fields are read with Load.
type Stats struct {
	Hits     atomic.Int64 // phrases the cache in memory held
	Joined   atomic.Int64 // phrases that shared an answer already asked for
	Shared   atomic.Int64 // phrases the shared cache held
	Embedded atomic.Int64 // distinct phrases the embedder was asked for
	Calls    atomic.Int64 // calls of the embedder
	Failures atomic.Int64 // calls that failed
	Left     atomic.Int64 // phrases whose caller did not wait for the answer
}
