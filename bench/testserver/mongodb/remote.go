package mongotest

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"sync"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"
)

// Remote controls a server in another process, over a connection of its own
// that no fault touches. It may be used by several goroutines.
type Remote struct {
	*Controls
	mu     sync.Mutex
	socket net.Conn
	in     *bufio.Reader
	lastID int32
}

// Dial connects to a server's address. Dial before injecting faults that close
// or refuse connections.
func Dial(ctx context.Context, address string) (*Remote, error) {
	var d net.Dialer
	socket, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("mongotest: %w", err)
	}
	r := &Remote{socket: socket, in: bufio.NewReader(socket)}
	r.Controls = &Controls{do: r.send}
	if err := r.simple(order{Action: actStats, Private: true}); err != nil {
		_ = socket.Close()
		return nil, err
	}
	return r, nil
}

// Close closes the connection. What was injected stays in force.
func (r *Remote) Close() error { return r.socket.Close() }

func (r *Remote) send(o order) (answer result, err error) {
	doc, err := bson.Marshal(o)
	if err != nil {
		return answer, fmt.Errorf("mongotest: encode the order: %w", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lastID++
	if _, err := r.socket.Write(encodeRequest(r.lastID, doc)); err != nil {
		return answer, fmt.Errorf("mongotest: %w", err)
	}
	m, _, err := readMessage(r.in, nil)
	if err != nil {
		return answer, fmt.Errorf("mongotest: %w", err)
	}
	if ok, _ := lookup(m.body, "ok").AsFloat64OK(); ok != 1 {
		text, _ := lookup(m.body, "errmsg").StringValueOK()
		code, _ := lookup(m.body, "code").AsInt64OK()
		return answer, fail(int32(code), "%s", text)
	}
	if err := bson.Unmarshal(m.body, &answer); err != nil {
		return answer, fmt.Errorf("mongotest: decode the answer: %w", err)
	}
	return answer, nil
}

// encodeRequest returns an OP_MSG with the command and its database, admin.
func encodeRequest(id int32, command document) []byte {
	b := make([]byte, headerBytes, headerBytes+len(command)+32)
	b = append(b, 0, 0, 0, 0, 0)
	start, b := bsoncore.AppendDocumentStart(b)
	b = append(b, command[4:len(command)-1]...)
	b = endDocument(bsoncore.AppendStringElement(b, "$db", "admin"), start)
	binary.LittleEndian.PutUint32(b, uint32(len(b)))
	binary.LittleEndian.PutUint32(b[4:], uint32(id))
	binary.LittleEndian.PutUint32(b[12:], opMsg)
	return b
}
