package settings

import (
	"slices"
	"testing"
)

// A setting's source is where its value is from, a flag before a variable.
func TestSources(t *testing.T) {
	for name, value := range map[string]string{
		"EMBEDDING_BATCH_WINDOW": "7", "WORKER_SHARDS": "3", "HTTP_TOKENS": "one,two", "EMBEDDING_FOLD_CASE": "", "RABBITMQ_DSN": "amqp://u:s3cret@h/",
	} {
		t.Setenv(name, value)
	}
	all := List(command(t, &daemon{}, "other", "--batch-window=8", "--openai-api-key=s3cret"))
	for _, want := range []Setting{
		{"EMBEDDING_BATCH_WINDOW", "--batch-window", "8", FromFlag},
		{"WORKER_SHARDS", "--shards", "3", FromEnvironment},
		{"EMBEDDING_DIMENSIONS", "--dimensions", "1536", FromDefault},
		{"MONGODB_DATABASE", "--mongodb-database", "keyfold", FromDefault},
		{"EMBEDDING_FOLD_CASE", "--embedding-fold-case", "false", FromEnvironment},
		{"OPENAI_API_KEY", "--openai-api-key", "***", FromFlag},
		{"HTTP_TOKENS", "--http-tokens", "***", FromEnvironment}, // of another command
		{"HTTP_RATE", "--http-rate", "", FromDefault},
		{"RABBITMQ_DSN", "--rabbitmq-dsn", "amqp://u:***@h/", FromEnvironment},
	} {
		if !slices.Contains(all, want) {
			t.Errorf("%+v is missing in %+v", want, all)
		}
	}
}

func TestRedact(t *testing.T) {
	for text, want := range map[string]string{
		"":                                    "",
		"127.0.0.1:9090":                      "127.0.0.1:9090",
		"amqp://guest:guest@host:5672/":       "amqp://guest:***@host:5672/",
		"amqp://guest:p@ss/w:rd?x@host:5672/": "amqp://guest:***@host:5672/",
		"mongodb://u:p@a:1,b:2/?replicaSet=r": "mongodb://u:***@a:1,b:2/?replicaSet=r",
		"mongodb://h/?authMechanismProperties=AWS_SESSION_TOKEN:x": "mongodb://h/?authMechanismProperties=***",
		"mongodb://h/?tlsCertificateKeyFilePassword=x&tls=true":    "mongodb://h/?tlsCertificateKeyFilePassword=***&tls=true",
		"user:p@ss@tcp(host:3306)/name":                            "user:***@tcp(host:3306)/name",
		"redis://:p@h:1/0?sentinel_password=x":                     "redis://:***@h:1/0?sentinel_password=***",
		"sqlite:///var/lib/file.db":                                "sqlite:///var/lib/file.db",
	} {
		if got := Redact(text); got != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
}
