// Package prometheustest runs a private Prometheus.
package prometheustest

import (
	"context"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"keyfold/internal/testserver/process"
)

// Server is one private Prometheus server.
type Server struct{ process.Server }

// Start runs a server until the test's end. It has what is written in the OpenMetrics format, with
// times, and a configuration in YAML, which may name files of config, by their names.
func Start(t testing.TB, metrics, config string, files map[string]string) *Server {
	t.Helper()
	return process.ForTest(t, func(dir string) (*Server, error) {
		written := map[string]string{"metrics.txt": metrics, "prometheus.yml": config}
		for name, text := range files {
			written[name] = text
		}
		for name, text := range written {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				return nil, err
			}
		}
		data := filepath.Join(dir, "data")
		promtool, err := process.Find("prometheus", "promtool")
		if err != nil {
			return nil, err
		}
		if out, err := exec.CommandContext(t.Context(), promtool, "tsdb", "create-blocks-from", "openmetrics", filepath.Join(dir, "metrics.txt"), data).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return launch(dir, data)
	})
}

func launch(dir, data string) (*Server, error) {
	path, err := process.Find("prometheus", "prometheus")
	if err != nil {
		return nil, err
	}
	ports, err := process.ClaimPorts()
	if err != nil {
		return nil, err
	}
	s := &Server{process.Server{Dir: dir, Path: path, Ports: ports, Args: []string{
		"--config.file", filepath.Join(dir, "prometheus.yml"), "--storage.tsdb.path", data, "--storage.tsdb.retention.time", "30d", "--web.listen-address", ports.Address(0),
	}}}
	s.Answers = func(ctx context.Context) bool {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL()+"/-/ready", nil)
		if err != nil {
			return false
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return false
		}
		_ = response.Body.Close()
		return response.StatusCode == http.StatusOK
	}
	if err := s.Boot(); err != nil {
		s.Stop()
		return nil, err
	}
	return s, nil
}

// URL returns the server's address.
func (s *Server) URL() string { return "http://" + s.Address() }
