package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"keyfold/internal/shutdown"
	"keyfold/internal/version"

	"keyfold/engine/metric"
	"keyfold/source/httpapi"
)

// Service is what the admin endpoint tells of.
type Service interface {
	// Ready returns nil while the service does its work, and otherwise why not.
	Ready() error
	// Notes say what else is worth knowing while it is ready.
	Notes() []string
	// Register adds the series of /metrics to set.
	Register(set *metric.Set)
	// Figures are the numbers of the log's summaries; none while the service starts.
	Figures() []Figure
}

// LogStart logs a daemon's first line.
func (a *App) LogStart(daemon string) {
	build := version.Read()
	a.Log.Info("starting", slog.String("daemon", daemon), slog.String("version", build.Version),
		slog.String("commit", build.ShortCommit()), slog.Int("pid", os.Getpid()))
}

const paths = "/metrics  counters and gauges in Prometheus's text format\n" +
	"/livez    200 while the process runs\n" +
	"/readyz   200 while it does its work, otherwise 503 with the reason\n" +
	"/log-level  the log's level; PUT debug, info, warn or error changes it until the end of the process\n"

// WithAdmin serves /metrics, /livez and /readyz, and logs summaries, while do runs.
func (a *App) WithAdmin(of Service, do func() error) error {
	listener, err := net.Listen("tcp", a.Servers.Admin)
	if err != nil {
		return fmt.Errorf("ADMIN_ADDR: %w (another address, or port 0 for any free one)", err)
	}
	set := &metric.Set{}
	of.Register(set)
	version.Read().Register(set)
	set.Gauge("keyfold_ready", "1 while /readyz answers with 200.", func() float64 {
		if of.Ready() != nil {
			return 0
		}
		return 1
	})
	metrics.ExposeMetadata(true) // of the process's own metrics; the library leaves their help empty
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(rw http.ResponseWriter, _ *http.Request) { fmt.Fprint(rw, paths) })
	mux.HandleFunc("GET /livez", func(rw http.ResponseWriter, _ *http.Request) { fmt.Fprintln(rw, "ok") })
	mux.HandleFunc("GET /readyz", func(rw http.ResponseWriter, _ *http.Request) {
		if err := of.Ready(); err != nil {
			http.Error(rw, err.Error(), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(rw, strings.Join(append([]string{"ok"}, of.Notes()...), "\n"))
	})
	mux.HandleFunc("/log-level", a.serveLogLevel)
	mux.HandleFunc("GET /metrics", func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		set.WritePrometheus(rw)
		metrics.WriteProcessMetrics(rw)
	})
	server := &http.Server{
		Handler:           ownNames(a.Servers.Admin, mux),
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      30 * time.Second,
		IdleTimeout:       time.Minute,
	}
	stop, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() {
		served <- shutdown.Serve(stop, server, listener, func() (context.Context, context.CancelFunc) {
			return context.WithTimeout(context.Background(), 2*time.Second)
		})
	}()
	a.Log.Info("admin endpoint", slog.String("addr", listener.Addr().String()))
	stopping := make(chan struct{})
	var summaries sync.WaitGroup
	summaries.Go(func() { (&summary{log: a.Log, of: of}).run(stopping) })
	err = do()
	close(stopping)
	summaries.Wait()
	cancel()
	return errors.Join(err, <-served)
}

// ownNames refuses requests on a loopback address that are made under another
// name: a browser that was led here by another site's DNS names that site, whose
// page could read the answers.
func ownNames(addr string, next http.Handler) http.Handler {
	if !httpapi.OnLoopback(addr) {
		return next
	}
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if !httpapi.LocalHost(r.Host) {
			http.Error(rw, "the host is not this machine's loopback: use localhost or 127.0.0.1", http.StatusForbidden)
			return
		}
		next.ServeHTTP(rw, r)
	})
}
