package app

import (
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"keyfold/internal/testserver/must"
)

// The queues' room names its fields; the operator reads the variables.
func TestFaultsOfQueuesNameVariables(t *testing.T) {
	var f QueueFlags
	p, err := kong.New(&f)
	must.OK(t, err)
	if _, err := p.Parse([]string{"--partitions=65", "--rabbitmq-queue-type=fast"}); err != nil {
		t.Fatal(err)
	}
	_, err = f.Queues()
	for _, want := range []string{
		"RABBITMQ_PARTITIONS is 65: it must be from 0 (one queue) to 64",
		`RABBITMQ_QUEUE_TYPE is "fast": it must be "classic" or "quorum"`,
	} {
		if err == nil || !strings.Contains(err.Error()+"\n", want+"\n") {
			t.Errorf("%q is missing in: %v", want, err)
		}
	}
}
