package catalog

import "sync/atomic"

// Stats counts since the start. Its fields are read with Load.
type Stats struct {
	Hits     atomic.Int64 // ids the cache answered
	Reads    atomic.Int64 // ids the store was asked for
	Calls    atomic.Int64 // look-ups
	Failures atomic.Int64 // look-ups that failed
}
