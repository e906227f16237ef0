// Package logtest keeps what a program or a component logs, for tests that read it meanwhile.
package logtest

import (
	"bytes"
	"strings"
	"sync"
)

// Buffer is a log, or another output, that may be read while it is written.
type Buffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements [io.Writer].
func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

// String returns what was written so far.
func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// Count returns how often a text was written so far.
func (b *Buffer) Count(text string) int { return strings.Count(b.String(), text) }
