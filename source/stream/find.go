package stream

import (
	"context"
	"errors"
	"fmt"

	"keyfold/engine"
	"keyfold/source/rabbit"
)

// maxGenerations is how many generations of streams are looked for: setup makes no more.
const maxGenerations = 32

// Find asks the broker which streams of an application it has, from the first generation on,
// those without a leader at present among them.
func Find(ctx context.Context, config Config, names rabbit.Names) ([]rabbit.Stream, error) {
	c, err := Dial(ctx, config)
	if err != nil {
		return nil, err
	}
	defer c.Close(context.WithoutCancel(ctx))
	var all []rabbit.Stream
	var queues []string
	for g := range maxGenerations {
		for p := range rabbit.MaxStreams {
			s := rabbit.Stream{Generation: g + 1, Partition: p}
			all, queues = append(all, s), append(queues, names.StreamQueue(s))
		}
	}
	answers, err := c.Metadata(ctx, queues...)
	if err != nil {
		return nil, err
	}
	found := all[:0]
	for i, s := range all {
		if answer, ok := answers[queues[i]]; ok && !errors.Is(answer.Err, StreamMissing) {
			found = append(found, s)
		}
	}
	if len(found) == 0 {
		return nil, Missing(errNone)
	}
	return found, nil
}

// ReasonMissing is the reason where there is no such stream.
const ReasonMissing = "stream_missing"

// Missing names the cure where a stream is missing.
func Missing(cause error) error {
	return engine.ConfigurationError(ReasonMissing, fmt.Errorf("%w: make them by %s", cause, rabbit.SetupStreamsCommand))
}

var errNone = errors.New("streams: the broker has none")
