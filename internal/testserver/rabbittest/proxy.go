package rabbittest

import (
	"net"
	"sync"
	"testing"
	"time"

	"keyfold/internal/testserver/must"
)

// Proxy is a TCP relay in front of a broker that can stop, slow and cut what
// passes through it.
type Proxy struct {
	targets  []string
	listener net.Listener
	working  sync.WaitGroup

	gate   sync.RWMutex // locked while frozen
	mu     sync.Mutex
	conns  map[net.Conn]struct{}
	frozen bool
	delay  time.Duration
	closed bool
}

// NewProxy starts a relay to the first of some addresses that answers, as a load balancer does,
// and ends it with the test.
func NewProxy(t testing.TB, targets ...string) *Proxy {
	t.Helper()
	p, err := Relay(targets...)
	must.OK(t, err)
	t.Cleanup(p.Close)
	return p
}

// Relay is [NewProxy] without a test. The caller closes it.
func Relay(targets ...string) (*Proxy, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &Proxy{targets: targets, listener: listener, conns: map[net.Conn]struct{}{}}
	p.working.Go(p.accept)
	return p, nil
}

// Address returns the host and port to connect to.
func (p *Proxy) Address() string { return p.listener.Addr().String() }

// Freeze stops all bytes, in both directions, and leaves every connection open:
// the half-open state a lost network leaves behind. New connections are
// accepted and hear nothing.
func (p *Proxy) Freeze() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.frozen {
		p.gate.Lock()
		p.frozen = true
	}
}

// Thaw lets bytes pass again.
func (p *Proxy) Thaw() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.frozen {
		p.gate.Unlock()
		p.frozen = false
	}
}

// Delay holds every piece of data back for d.
func (p *Proxy) Delay(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay = d
}

// Cut closes every connection there is.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		c.Close()
	}
}

// Close ends the relay with all its connections.
func (p *Proxy) Close() {
	p.listener.Close()
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.Cut()
	p.Thaw()
	p.working.Wait()
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.working.Go(func() { p.relay(client) })
	}
}

func (p *Proxy) relay(client net.Conn) {
	defer client.Close()
	var server net.Conn
	for _, target := range p.targets {
		var err error
		if server, err = net.Dial("tcp", target); err == nil {
			break
		}
	}
	if server == nil {
		return
	}
	defer server.Close()
	if !p.keep(client, server) {
		return
	}
	defer p.forget(client, server)
	var both sync.WaitGroup
	both.Go(func() { p.pass(server, client) })
	p.pass(client, server)
	both.Wait()
}

func (p *Proxy) keep(conns ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		p.conns[c] = struct{}{}
	}
	return !p.closed
}

func (p *Proxy) forget(conns ...net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		delete(p.conns, c)
	}
}

// pass copies from one side to the other until either is closed.
func (p *Proxy) pass(to, from net.Conn) {
	defer to.Close()
	defer from.Close()
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			p.mu.Lock()
			delay := p.delay
			p.mu.Unlock()
			p.gate.RLock()
			p.gate.RUnlock() //nolint:staticcheck // it only waits until bytes pass
			time.Sleep(delay)
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}
