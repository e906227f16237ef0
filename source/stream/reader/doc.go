// Package reader reads events from streams: into the same windows that a consumer of queues
// fills, as [profile.Delivery].
//
// One goroutine has a stream, and one session after the other. A session begins at the stored
// position, proves that the stream is the one that the position was of, and hands over what
// it reads, with credit for as many chunks as the held bytes have room for. What is settled
// lets the position go on; what leaves by a copy does so once the copy is confirmed. Nothing
// is acknowledged to the broker, and reading anything again is harmless: see
// [profile.Marks].
package reader
