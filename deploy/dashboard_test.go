package deploy_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The dashboard is deployed read only, asks for a token, and is reached from this machine alone, or
// inside the cluster alone.
//
// Promise(manifests/dashboard): The deployed dashboard is read only and asks for a token: Compose publishes it to loopback,
// Kubernetes to the cluster, where probes need no token.
func TestDashboardIsDeployedReadOnly(t *testing.T) {
	check := buildCheck(t)
	var project struct {
		Services map[string]struct {
			Command     []string
			Environment map[string]string
			Ports       []struct {
				HostIP string `json:"host_ip"`
				Target int
			}
		}
	}
	checked(t, &project, check, "compose", "../docker-compose.yml")
	s := project.Services["dashboard"]
	if len(s.Ports) != 1 || s.Ports[0].HostIP != "127.0.0.1" || s.Ports[0].Target != 7090 {
		t.Errorf("compose publishes %+v", s.Ports)
	}
	readsOnly(t, "compose", s.Command, s.Environment, "/token/readers")
	if s.Environment["DASHBOARD_HOSTS"] != "localhost,127.0.0.1" {
		t.Errorf("pages are shown under the names %q", s.Environment["DASHBOARD_HOSTS"])
	}
	for _, o := range render(t, check, filepath.Join(overlay(t), "shop")) {
		switch {
		case o.Metadata.Name != "keyfold-dashboard":
		case o.Kind == "Service" && o.Spec.Type != "ClusterIP":
			t.Errorf("the Service is of the type %q", o.Spec.Type)
		case o.Kind == "Deployment":
			c, env := o.Spec.Template.Spec.Containers[0], map[string]string{}
			for _, e := range c.Env {
				env[e.Name] = e.Value
			}
			readsOnly(t, "kubernetes", c.Args, env, "/run/secrets/keyfold/http-tokens")
			if o.Spec.Replicas == nil || *o.Spec.Replicas != 1 || o.Spec.Template.Metadata.Labels["keyfold"] != "" {
				t.Errorf("%v replicas with the labels %v", o.Spec.Replicas, o.Spec.Template.Metadata.Labels)
			}
		}
	}
}

func readsOnly(t *testing.T, where string, args []string, env map[string]string, tokens string) {
	t.Helper()
	if !slices.Equal(args, []string{"dashboard"}) || env["HTTP_TOKEN_FILE"] != tokens || env["DASHBOARD_BEHIND_PROXY"] != "true" || env["DASHBOARD_ADDR"] != "0.0.0.0:7090" {
		t.Errorf("%s runs %q with %v", where, args, env)
	}
	for name := range env {
		if strings.Contains(name, "ACTIONS") || strings.Contains(name, "INSECURE") {
			t.Errorf("%s sets %s", where, name)
		}
	}
}
