// Package writer publishes groups of messages to streams, each group whole and under a number
// that the stream remembers: what comes again is dropped. See [Writer.Publish].
package writer
