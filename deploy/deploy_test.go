package deploy_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"keyfold/internal/testserver/must"
)

// The first start makes a token, for this user alone; later ones keep it.
//
// Promise(security/foreign-hosts)
func TestMakeToken(t *testing.T) {
	dir := t.TempDir()
	token := func() string {
		if out, err := exec.Command("./make-token.sh", dir).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		text, err := os.ReadFile(filepath.Join(dir, "tokens"))
		must.OK(t, err)
		return string(text)
	}
	first := token()
	if key, err := os.ReadFile(filepath.Join(dir, "link-key")); err != nil || len(key) < 40 || string(key) == first {
		t.Errorf("the key of links has %d bytes, %v", len(key), err)
	}
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
//
// Promise(security/foreign-hosts)
func TestComposeAsksForAToken(t *testing.T) {
	compose, err := os.ReadFile("../docker-compose.yml")
	must.OK(t, err)
	for _, name := range []string{"ingest", "notify-api"} {
		for _, want := range []string{"HTTP_TOKEN_FILE: /token/tokens", "volumes: [token:/token:ro]", "token: {condition: service_completed_successfully}"} {
			if !strings.Contains(service(t, string(compose), name), want) {
				t.Errorf("the service %s has no %s", name, want)
			}
		}
	}
	if strings.Contains(string(compose), "HTTP_INSECURE") {
		t.Error("the API listens without tokens")
	}
}

// service returns the text of a service.
func service(t *testing.T, compose, name string) string {
	t.Helper()
	_, text, found := strings.Cut(compose, "\n  "+name+":\n")
	if !found {
		t.Fatalf("there is no service %s", name)
	}
	if next := regexp.MustCompile(`(?m)^ {0,2}[a-z-]+:$`).FindStringIndex(text); next != nil {
		text = text[:next[0]]
	}
	return text
}

// The stage in front of partitions is started by its profile alone, and waits for setup;
// all services are told how many partitions there are.
func TestComposeOfPartitions(t *testing.T) {
	text, err := os.ReadFile("../docker-compose.yml")
	must.OK(t, err)
	compose := string(text)
	for _, want := range []string{"<<: *keyfold", "profiles: [partition]", "command: [partition]", "setup: {condition: service_completed_successfully}", "healthcheck: *ready"} {
		if !strings.Contains(service(t, compose, "partition"), want) {
			t.Errorf("the service partition has no %s", want)
		}
	}
	if common, _, _ := strings.Cut(compose, "\nservices:\n"); !strings.Contains(common, "\n    RABBITMQ_PARTITIONS: # ") {
		t.Error("the services are not told how many partitions there are")
	}
}

// Notifications have services of their own, which an installation without them does not
// start, and which wait until their tables and queues are there.
func TestComposeOfNotifications(t *testing.T) {
	text, err := os.ReadFile("../docker-compose.yml")
	must.OK(t, err)
	compose := string(text)
	for name, command := range map[string]string{
		"notify-setup": "[notify, setup]", "notify-api": "[notify, serve]", "notify-worker": "[notify, work]", "notify-retention": "keyfold notify retention",
	} {
		text := service(t, compose, name)
		for _, want := range []string{"<<: *keyfold", "profiles: [notify]", command} {
			if !strings.Contains(text, want) {
				t.Errorf("the service %s has no %s", name, want)
			}
		}
		if name != "notify-setup" && !strings.Contains(text, "notify-setup: {condition: service_completed_successfully}") {
			t.Errorf("the service %s does not wait for notify-setup", name)
		}
	}
	for _, server := range []string{"rabbitmq", "postgres"} {
		if !strings.Contains(service(t, compose, "notify-setup"), server+": {condition: service_healthy}") {
			t.Errorf("notify-setup does not wait for %s", server)
		}
	}
	for _, name := range []string{"ingest", "worker", "setup"} {
		if strings.Contains(service(t, compose, name), "notify") {
			t.Errorf("the service %s needs notifications", name)
		}
	}
}

// Units of systemd start commands that there are, with one set of restrictions, and the timer
// starts the one that ends by itself.
func TestUnitsOfSystemd(t *testing.T) {
	unit := func(name string) string {
		text, err := os.ReadFile(name)
		must.OK(t, err)
		return string(text)
	}
	restrictions := func(text string) string {
		_, after, _ := strings.Cut(text, "\nCapabilityBoundingSet=")
		before, _, _ := strings.Cut(after, "[Install]")
		return before
	}
	profiles, notifications := unit("keyfold@.service"), unit("keyfold-notify@.service")
	if restrictions(profiles) != restrictions(notifications) || !strings.Contains(profiles, "\nProtectSystem=strict\n") {
		t.Error("the units have other restrictions")
	}
	if !strings.Contains(notifications, "\nExecStart=/usr/local/bin/keyfold notify %i\n") || !strings.Contains(unit("keyfold-notify-retention.timer"), "\nUnit=keyfold-notify@retention.service\n") {
		t.Error("the timer does not start retention")
	}
}
