package deploy_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The first start makes a token, for this user alone; later ones keep it.
func TestMakeToken(t *testing.T) {
	dir := t.TempDir()
	token := func() string {
		if out, err := exec.Command("./make-token.sh", dir).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		text, err := os.ReadFile(filepath.Join(dir, "tokens"))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	first := token()
	if !regexp.MustCompile(`^[A-Za-z0-9+/=]{40,}\n$`).MatchString(first) {
		t.Errorf("the token is %q", first)
	}
	info, err := os.Stat(filepath.Join(dir, "tokens"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("its file: %v %v", info.Mode(), err)
	}
	if again := token(); again != first {
		t.Error("the second start replaced the token")
	}
	dir = t.TempDir()
	if token() == first {
		t.Error("two installations have the same token")
	}
}

// Compose publishes a port to a browser's machine: it must ask for the token,
// as a page of any site can reach that port under a name of its own.
func TestComposeAsksForAToken(t *testing.T) {
	compose, err := os.ReadFile("../docker-compose.yml")
	if err != nil {
		t.Fatal(err)
	}
	_, ingest, _ := strings.Cut(string(compose), "\n  ingest:\n")
	ingest, _, _ = strings.Cut(ingest, "\n  worker:\n")
	for _, want := range []string{"HTTP_TOKEN_FILE: /token/tokens", "volumes: [token:/token:ro]", "token: {condition: service_completed_successfully}"} {
		if !strings.Contains(ingest, want) {
			t.Errorf("the service ingest has no %s", want)
		}
	}
	if strings.Contains(string(compose), "HTTP_INSECURE") {
		t.Error("the API listens without tokens")
	}
}
