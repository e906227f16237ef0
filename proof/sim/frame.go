package sim

import (
	"encoding/binary"
	"errors"
	"io"
)

// The part of AMQP 0-9-1 that a worker speaks, from the broker's side.

const (
	frameMethod    = 1
	frameHeader    = 2
	frameBody      = 3
	frameHeartbeat = 8
	frameEnd       = 0xCE
)

// method is a class and method id.
type method uint32

const (
	connectionStart   method = 10<<16 | 10
	connectionStartOK method = 10<<16 | 11
	connectionTune    method = 10<<16 | 30
	connectionTuneOK  method = 10<<16 | 31
	connectionOpen    method = 10<<16 | 40
	connectionOpenOK  method = 10<<16 | 41
	connectionClose   method = 10<<16 | 50
	connectionCloseOK method = 10<<16 | 51
	connectionBlocked method = 10<<16 | 60
	connectionFreed   method = 10<<16 | 61
	channelOpen       method = 20<<16 | 10
	channelOpenOK     method = 20<<16 | 11
	channelClose      method = 20<<16 | 40
	channelCloseOK    method = 20<<16 | 41
	basicQos          method = 60<<16 | 10
	basicQosOK        method = 60<<16 | 11
	basicConsume      method = 60<<16 | 20
	basicConsumeOK    method = 60<<16 | 21
	basicCancel       method = 60<<16 | 30
	basicCancelOK     method = 60<<16 | 31
	basicPublish      method = 60<<16 | 40
	basicReturn       method = 60<<16 | 50
	basicDeliver      method = 60<<16 | 60
	basicAck          method = 60<<16 | 80
	basicNack         method = 60<<16 | 120
	confirmSelect     method = 85<<16 | 10
	confirmSelectOK   method = 85<<16 | 11
)

// frame is one that was received. Its payload is valid until the next read.
type frame struct {
	kind    byte
	channel uint16
	payload []byte
}

var errFrame = errors.New("sim: not a frame")

// readFrame reads the next frame into room, which it may grow.
func readFrame(r io.Reader, room *[]byte) (frame, error) {
	var head [7]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return frame{}, err
	}
	size := int(binary.BigEndian.Uint32(head[3:]))
	if cap(*room) < size+1 {
		*room = make([]byte, size+1)
	}
	payload := (*room)[:size+1]
	if _, err := io.ReadFull(r, payload); err != nil {
		return frame{}, err
	}
	if payload[size] != frameEnd {
		return frame{}, errFrame
	}
	return frame{kind: head[0], channel: binary.BigEndian.Uint16(head[1:]), payload: payload[:size]}, nil
}

// fields reads a method's arguments one after the other. What is missing reads
// as zero: the library is trusted to send whole frames.
type fields []byte

func (f *fields) take(n int) []byte {
	if n > len(*f) {
		n = len(*f)
	}
	b := (*f)[:n]
	*f = (*f)[n:]
	return b
}

func (f *fields) number(size int) (n uint64) {
	for _, b := range f.take(size) {
		n = n<<8 | uint64(b)
	}
	return n
}

func (f *fields) text() string { return string(f.take(int(f.number(1)))) }

// writer builds frames.
type writer struct{ b []byte }

// begin starts a frame and returns where its size stands.
func (w *writer) begin(kind byte, channel uint16) int {
	w.b = append(w.b, kind, byte(channel>>8), byte(channel), 0, 0, 0, 0)
	return len(w.b)
}

func (w *writer) end(start int) {
	binary.BigEndian.PutUint32(w.b[start-4:], uint32(len(w.b)-start))
	w.b = append(w.b, frameEnd)
}

// method appends a method frame; arguments are uint8, uint16, uint32, uint64, a
// short string, or bytes as they are.
func (w *writer) method(channel uint16, m method, arguments ...any) {
	start := w.begin(frameMethod, channel)
	w.b = binary.BigEndian.AppendUint32(w.b, uint32(m))
	for _, a := range arguments {
		switch v := a.(type) {
		case uint8:
			w.b = append(w.b, v)
		case uint16:
			w.b = binary.BigEndian.AppendUint16(w.b, v)
		case uint32:
			w.b = binary.BigEndian.AppendUint32(w.b, v)
		case uint64:
			w.b = binary.BigEndian.AppendUint64(w.b, v)
		case string:
			w.b = append(append(w.b, byte(len(v))), v...)
		case []byte:
			w.b = append(w.b, v...)
		}
	}
	w.end(start)
}

// content appends a message's header and body frames.
func (w *writer) content(channel uint16, properties, body []byte) {
	start := w.begin(frameHeader, channel)
	w.b = append(w.b, 0, 60, 0, 0)
	w.b = binary.BigEndian.AppendUint64(w.b, uint64(len(body)))
	w.b = append(w.b, properties...)
	w.end(start)
	if len(body) > 0 {
		start = w.begin(frameBody, channel)
		w.b = append(w.b, body...)
		w.end(start)
	}
}

func (w *writer) heartbeat() { w.end(w.begin(frameHeartbeat, 0)) }

// propertiesOf encodes the flags and values of a published event's properties:
// persistent, with a message id where there is one.
func propertiesOf(messageID string) []byte {
	const deliveryMode, id = 1 << 12, 1 << 7
	if messageID == "" {
		return []byte{deliveryMode >> 8, 0, 2}
	}
	b := []byte{deliveryMode >> 8, id, 2, byte(len(messageID))}
	return append(b, messageID...)
}
