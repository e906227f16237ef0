package stream

import (
	"context"
	"errors"
	"fmt"
)

// Create makes a stream. Arguments are those of the protocol, such as max-age and
// max-length-bytes.
func (c *Conn) Create(ctx context.Context, stream string, arguments map[string]string) error {
	_, err := c.call(ctx, create, appendPairs(appendString(nil, stream), arguments))
	if err != nil {
		return fault(fmt.Sprintf("create stream %q", stream), err)
	}
	return nil
}

// Delete deletes a stream with all it holds.
func (c *Conn) Delete(ctx context.Context, stream string) error {
	_, err := c.call(ctx, deleteStream, appendString(nil, stream))
	if err != nil {
		return fault(fmt.Sprintf("delete stream %q", stream), err)
	}
	return nil
}

// StoreOffset has the broker note an offset for its tools, under a name of at most 255
// bytes. It is not confirmed and may be lowered, and it takes an offset of the stream.
func (c *Conn) StoreOffset(reference, stream string, offset uint64) error {
	return c.send(storeOffset, order.AppendUint64(appendString(appendString(nil, reference), stream), offset))
}

// QueryOffset returns the offset that was noted under a name. found is false where there is none.
func (c *Conn) QueryOffset(ctx context.Context, reference, stream string) (offset uint64, found bool, err error) {
	answer, err := c.call(ctx, queryOffset, appendString(appendString(nil, reference), stream))
	if errors.Is(err, noOffset) {
		return 0, false, nil
	}
	if err == nil {
		offset = answer.u64()
		err = answer.err()
	}
	if err != nil {
		return 0, false, fault(fmt.Sprintf("ask for the stored offset of stream %q", stream), err)
	}
	return offset, true, nil
}

// ErrNoStats: brokers before RabbitMQ 3.11 have no figures of streams, and close the
// connection for the question.
var ErrNoStats = errors.New("this broker tells no figures of streams: RabbitMQ 3.11 or newer does")

// Stats returns a stream's figures by the broker's names, such as first_chunk_id and
// committed_chunk_id; -1 where there is none. Older brokers are not asked: [ErrNoStats].
func (c *Conn) Stats(ctx context.Context, stream string) (map[string]int64, error) {
	doing := fmt.Sprintf("ask for figures of stream %q", stream)
	if !c.hasStats() {
		return nil, fault(doing, ErrNoStats)
	}
	answer, err := c.call(ctx, streamStats, appendString(nil, stream))
	if err != nil {
		return nil, fault(doing, err)
	}
	all := map[string]int64{}
	for range answer.count(10) {
		name := answer.string()
		all[name] = int64(answer.u64())
	}
	if err := answer.err(); err != nil {
		return nil, fault(doing, err)
	}
	return all, nil
}

func (c *Conn) hasStats() bool {
	var major, minor int
	if _, err := fmt.Sscanf(c.properties["version"], "%d.%d", &major, &minor); err != nil {
		return false
	}
	return major > 3 || major == 3 && minor >= 11
}
