package stream

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
)

// Node is a node's advertised host and port.
type Node struct {
	Host string
	Port int
}

// String returns host:port.
func (n Node) String() string { return addressOf(n.Host, n.Port) }

// Metadata says where a stream is.
type Metadata struct {
	Leader   Node // zero where there is none at present
	Replicas []Node
	Err      error // a [Code], such as [StreamMissing]; nil: the stream is there
}

// Metadata asks where streams are.
func (c *Conn) Metadata(ctx context.Context, streams ...string) (map[string]Metadata, error) {
	body := order.AppendUint32(nil, uint32(len(streams)))
	for _, s := range streams {
		body = appendString(body, s)
	}
	answer, err := c.call(ctx, metadata, body)
	if err != nil {
		return nil, fault("ask for streams", err)
	}
	all := answer.metadata()
	if err := answer.err(); err != nil {
		return nil, fault("ask for streams", err)
	}
	return all, nil
}

func (c *cursor) metadata() map[string]Metadata {
	nodes := map[uint16]Node{}
	for range c.count(8) {
		id := c.u16()
		nodes[id] = Node{Host: c.string(), Port: int(c.u32())}
	}
	all := map[string]Metadata{}
	for range c.count(10) {
		name, code := c.string(), Code(c.u16())
		m := Metadata{Leader: nodes[c.u16()]}
		if code != ok {
			m.Err = code
		}
		for range c.count(2) {
			m.Replicas = append(m.Replicas, nodes[c.u16()])
		}
		all[name] = m
	}
	return all
}

// leaderAttempts is how often the address of a leader is dialed that a load balancer stands
// in front of: it may lead to another node.
const leaderAttempts = 10

// DialLeader connects to the node that leads a stream: first to the URL's, then, where that
// is another one, to the host and port that the leader advertises.
func DialLeader(ctx context.Context, config Config, stream string) (*Conn, error) {
	conns, err := DialLeaders(ctx, config, stream)
	return conns[stream], err
}

// DialLeaders connects to the nodes that lead streams, to each once, and returns the
// connections by stream.
func DialLeaders(ctx context.Context, config Config, streams ...string) (conns map[string]*Conn, err error) {
	first, err := Dial(ctx, config)
	if err != nil {
		return nil, err
	}
	nodes := map[Node]*Conn{}
	defer func() {
		if !slices.Contains(slices.Collect(maps.Values(nodes)), first) {
			first.Close(ctx)
		}
		if err != nil {
			closeAll(ctx, nodes)
		}
	}()
	all, err := first.Metadata(ctx, streams...)
	if err != nil {
		return nil, err
	}
	conns = map[string]*Conn{}
	for _, name := range streams {
		m := all[name]
		if err := m.leaderless(); err != nil {
			return nil, fault(fmt.Sprintf("find the leader of stream %q", name), err)
		}
		switch {
		case nodes[m.Leader] != nil:
		case first.at(m.Leader):
			nodes[m.Leader] = first
		default:
			if nodes[m.Leader], err = dialNode(ctx, config, name, m.Leader); err != nil {
				delete(nodes, m.Leader)
				return nil, err
			}
		}
		conns[name] = nodes[m.Leader]
	}
	return conns, nil
}

func closeAll(ctx context.Context, nodes map[Node]*Conn) {
	for _, c := range nodes {
		c.Close(ctx)
	}
}

// leaderless says why the node that was asked knows no leader, and what to do where that lasts.
func (m Metadata) leaderless() error {
	switch {
	case errors.Is(m.Err, StreamNotAvailable):
		return fmt.Errorf("%w; %s", m.Err, leaderCure)
	case m.Err != nil:
		return m.Err
	case m.Leader == Node{}:
		return errors.New("it has no leader at present; " + leaderCure)
	default:
		return nil
	}
}

const leaderCure = "where that lasts, start the nodes that hold it (rabbitmqctl cluster_status), as more than half of them have to run"

var errOtherNode = errors.New("another node answers there")

// dialNode connects to an advertised node.
func dialNode(ctx context.Context, config Config, stream string, node Node) (*Conn, error) {
	e, err := parse(config.URI)
	if err != nil {
		return nil, err
	}
	address, attempts := node.String(), 1
	if config.Address != nil {
		address, attempts = config.Address(node.Host, node.Port), leaderAttempts
	}
	for range attempts {
		var c *Conn
		if c, err = dial(ctx, config, e, address); err != nil {
			break
		}
		if c.at(node) {
			return c, nil
		}
		c.Close(ctx)
		err = errOtherNode
	}
	return nil, fmt.Errorf("rabbitmq stream: the leader of stream %q is not reached at the host and port that its node advertises, %s: "+
		"set stream.advertised_host and stream.advertised_port of that node to what clients can reach: %w", stream, node, err)
}

// at reports whether a node is the connection's. A broker that does not tell is taken for it.
func (c *Conn) at(node Node) bool {
	host, port := c.opened["advertised_host"], c.opened["advertised_port"]
	return host == "" || host == node.Host && port == strconv.Itoa(node.Port)
}
