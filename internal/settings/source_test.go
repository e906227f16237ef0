package settings

import (
	"slices"
	"testing"
)

func TestWarningsOfValues(t *testing.T) {
	c, err := parse(t, map[string]string{"WORKER_PREFETCH": "60000", "WORKER_MEMORY_LIMIT": "64M"}).Config()
	want := []Warning{{"WORKER_PREFETCH", "setting lowered", "4096 is used instead of 60000: raise WORKER_MEMORY_LIMIT (64M), of which an event takes 16 KiB"}}
	if err != nil || !slices.Equal(c.Warnings, want) {
		t.Errorf("%v, %q", err, c.Warnings)
	}
	if c, err = parse(t, map[string]string{"WORKER_PREFETCH": "4096"}).Config(); err != nil || len(c.Warnings) > 0 {
		t.Errorf("the default prefetch in the lowest memory: %v, %q", err, c.Warnings)
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
		"https://host/v1?api-version=1&api-key=x":                  "https://host/v1?api-version=1&api-key=***",
		"host=db password=s3 user=k":                               "host=db password=*** user=k",
		`host=db password = 'a b\'c' user=k`:                       "host=db password = *** user=k",
		"host=db PGPASSWORD=s3&c=d":                                "host=db PGPASSWORD=***&c=d",
		"sqlite:///var/lib/file.db":                                "sqlite:///var/lib/file.db",
	} {
		if got := Redact(text); got != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
}
