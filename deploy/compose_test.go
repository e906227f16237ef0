package deploy_test

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

// composed is what the tests read of the file, with all profiles.
type composed struct {
	Services map[string]struct {
		Image       string
		PullPolicy  string `json:"pull_policy"`
		Build       any
		Profiles    []string
		Environment map[string]string
		Healthcheck struct{ Test []string }
		DependsOn   map[string]any `json:"depends_on"`
	}
}

func readCompose(t *testing.T) (c composed) {
	t.Helper()
	checked(t, &c, buildCheck(t), "compose", "../docker-compose.yml", "partition", "notify", "observability")
	return c
}

// waits reports whether a service waits for another, at least through a third.
func (c composed) waits(name, other string) bool {
	before := slices.Collect(maps.Keys(c.Services[name].DependsOn))
	return slices.ContainsFunc(before, func(b string) bool { return b == other || c.waits(b, other) })
}

// One service builds keyfold's image. All others of keyfold's wait for it, and take the image by its
// name and from no registry.
//
// Promise(manifests/one-image): Compose's services of keyfold are one image; `status` asks all
// daemons and notes those of a profile that is off.
func TestComposeBuildsOneImage(t *testing.T) {
	t.Parallel()
	c := readCompose(t)
	const image, builder = "keyfold", "token"
	for name, s := range c.Services {
		if _, ours := s.Environment["RABBITMQ_DSN"]; ours != (s.Image == image) {
			t.Errorf("the image of %s is %q", name, s.Image)
		}
		switch {
		case name == builder:
			if s.Build == nil || s.Image != image {
				t.Errorf("%s does not build the image", name)
			}
		case s.Build != nil:
			t.Errorf("%s builds an image of its own", name)
		case s.Image == image && (s.PullPolicy != "never" || !c.waits(name, builder)):
			t.Errorf("%s has the pull policy %q and waits for the image: %v", name, s.PullPolicy, c.waits(name, builder))
		}
	}
}

// `keyfold status` asks every daemon with an admin endpoint: those of a profile where it is on. It looks at the database of
// notifications, and so at their queues, in a service of their profile alone.
//
// Promise(manifests/one-image)
func TestComposeTellsStatusOfAllDaemons(t *testing.T) {
	t.Parallel()
	c := readCompose(t)
	asked := strings.Split(c.Services["worker"].Environment["STATUS_PROCESSES"], ",")
	daemons := 0
	for name, s := range c.Services {
		address := name + ":9090"
		if len(s.Profiles) > 0 {
			address += "?"
		}
		if known := s.Environment["NOTIFY_DATABASE_URL"] != ""; known != (s.Image == "keyfold" && slices.Contains(s.Profiles, "notify")) {
			t.Errorf("%s knows the database of notifications: %v", name, known)
		}
		daemon := strings.Contains(strings.Join(s.Healthcheck.Test, " "), ":9090/readyz")
		if daemon {
			daemons++
		}
		if daemon != slices.Contains(asked, address) {
			t.Errorf("status asks %q, and %s is a daemon: %v", asked, name, daemon)
		}
	}
	if daemons != len(asked) {
		t.Errorf("of %d daemons status asks %q", daemons, asked)
	}
}
