package vector

import "sync/atomic"

// Stats counts since the start. Its fields are read with Load.
type Stats struct {
	Hits     atomic.Int64 // phrases the cache held
	Embedded atomic.Int64 // distinct phrases the embedder was asked for
	Calls    atomic.Int64 // calls of the embedder
	Failures atomic.Int64 // calls that failed
}
