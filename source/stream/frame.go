package stream

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"keyfold/engine/causes"
)

// Commands of the protocol.
const (
	declarePublisher uint16 = iota + 1
	publish
	publishConfirm
	publishError
	querySequence
	deletePublisher
	subscribe
	deliver
	credit
	storeOffset
	queryOffset
	unsubscribe
	create
	deleteStream
	metadata
	metadataUpdate
	peerProperties
	saslHandshake
	saslAuthenticate
	tune
	open
	closing
	heartbeat

	streamStats uint16 = 28
	response    uint16 = 1 << 15 // set in the key of an answer
)

// version is that of all commands that are sent.
const version = 1

// Bounds of the frames that come. A chunk is as large as what was stored together, whatever
// the bound of frames is.
const (
	maxChunk    = 256 << 20
	maxReceived = 1 << 20
	headerSize  = 4 // of a frame: key and version
)

// firstRead is how much is allocated of a frame that nothing has come of yet.
const firstRead = 1 << 20

// readFrame returns the next frame's key, and what stands behind its version.
func (c *Conn) readFrame() (key uint16, body []byte, err error) {
	head, err := c.reader.Peek(8)
	if isAlert(head) {
		return 0, nil, causes.Explain(causes.Streams, causes.NeedsTLS, errAlert)
	}
	if err != nil {
		return 0, nil, err
	}
	size, key := int64(order.Uint32(head)), order.Uint16(head[4:])
	limit := int64(maxReceived)
	if key == deliver {
		limit = maxChunk
	}
	if size < headerSize || size > limit {
		return 0, nil, fmt.Errorf("a frame of %d bytes with key %#04x is not of the stream protocol", size, key)
	}
	if _, err := c.reader.Discard(8); err != nil {
		return 0, nil, err
	}
	body, err = readBody(c.reader, int(size)-headerSize)
	return key, body, err
}

var errAlert = errors.New("a TLS alert came in place of a frame")

// isAlert reports whether a frame begins as a TLS alert does, which is shorter than one.
func isAlert(head []byte) bool { return len(head) >= 2 && head[0] == 21 && head[1] == 3 }

// readBody reads n bytes. It allocates as they come, so that a false size takes no memory.
func readBody(r io.Reader, n int) ([]byte, error) {
	body := room(n)
	for read := 0; ; {
		more, err := io.ReadFull(r, body[read:])
		if read += more; err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		if err != nil || read == n {
			return body, err
		}
		body = append(make([]byte, 0, min(n, 2*read)), body...)
		body = body[:cap(body)]
	}
}

// frames are those that chunks came in and that are free again, of *[]byte: new memory would be
// cleared, and collected.
var frames sync.Pool

// room returns memory for the first bytes of a body, or for all of them.
func room(n int) []byte {
	if n > smallFrame {
		if free, ok := frames.Get().(*[]byte); ok && cap(*free) >= n {
			return (*free)[:n]
		}
	}
	return make([]byte, min(n, firstRead))
}

// smallFrame is up to where memory is cheap.
const smallFrame = 4 << 10

// send sends a command that has no answer.
func (c *Conn) send(key uint16, body []byte) error {
	frame := make([]byte, 0, 8+len(body))
	frame = order.AppendUint32(frame, uint32(headerSize+len(body)))
	frame = order.AppendUint16(frame, key)
	frame = order.AppendUint16(frame, version)
	return c.write(append(frame, body...))
}

// write sends a whole frame. An error ends the connection, since part of the frame may be
// sent.
func (c *Conn) write(frame []byte) error {
	c.writing.Lock()
	defer c.writing.Unlock()
	now := time.Now()
	err := c.socket.SetWriteDeadline(now.Add(c.timing.Write))
	if err == nil {
		_, err = c.socket.Write(frame)
	}
	if err != nil {
		c.end(fmt.Errorf("write: %w", err))
		return c.Err()
	}
	c.lastSent.Store(now.UnixNano())
	return nil
}
