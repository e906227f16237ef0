package docs_test

import (
	"os/exec"
	"strings"
	"testing"
)

// notInLite are modules that only the daemon needs. With them, the first build of
// keyfold-lite takes longer and its program is larger.
var notInLite = []string{
	"github.com/VictoriaMetrics/metrics",
	"github.com/openai/openai-go",
	"github.com/rabbitmq/amqp091-go",
	"github.com/redis/go-redis",
	"go.mongodb.org/mongo-driver",
	"go.opentelemetry.io",
	"google.golang.org",
}

func TestLiteIsBuiltWithoutTheDaemonsModules(t *testing.T) {
	command := exec.CommandContext(t.Context(), "go", "list", "-deps", "./cmd/keyfold-lite")
	command.Dir = ".."
	listed, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, listed)
	}
	for path := range strings.Lines(string(listed)) {
		for _, module := range notInLite {
			if strings.HasPrefix(path, module) {
				t.Errorf("keyfold-lite is built with %s", strings.TrimSpace(path))
			}
		}
	}
}
