// Command embedtestd serves OpenAI's embeddings API with deterministic vectors
// and faults on demand, for trials without an account:
//
//	go run ./internal/testserver/embedtest/embedtestd -latency 50ms -too-many 0.05
//	OPENAI_BASE_URL=http://127.0.0.1:8089/v1 OPENAI_API_KEY=any keyfold embed mug
package main

import (
	"context"
	"flag"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"keyfold/internal/testserver/embedtest"
)

func main() {
	config := embedtest.Config{}
	f := &config.Faults
	flag.StringVar(&config.Addr, "addr", "127.0.0.1:8089", "where to listen")
	flag.IntVar(&config.Dimensions, "dimensions", 1536, "components, where a request does not say")
	flag.StringVar(&config.Model, "model", "", "the only model there is; empty: any")
	flag.StringVar(&config.Key, "key", "", "the only key that is taken; empty: any")
	flag.Uint64Var(&config.Seed, "seed", 1, "seed of the faults")
	flag.DurationVar(&f.Latency, "latency", 0, "time before every answer")
	flag.DurationVar(&f.RetryAfter, "retry-after", 0, "Retry-After of a 429 and of -status")
	flag.IntVar(&f.Status, "status", 0, "answer every request with this status")
	for name, share := range map[string]*float64{
		"too-many": &f.TooMany, "server-error": &f.ServerError, "hang": &f.Hang, "hang-up": &f.HangUp,
		"truncate": &f.Truncate, "wrong-dimensions": &f.WrongDimensions, "wrong-count": &f.WrongCount,
		"wrong-index": &f.WrongIndex, "not-finite": &f.NotFinite, "zero": &f.Zero,
	} {
		flag.Float64Var(share, name, 0, "share of requests, 0 to 1")
	}
	flag.Parse()

	server, err := embedtest.Launch(config)
	if err != nil {
		slog.Error("cannot serve", slog.Any("error", err))
		os.Exit(1)
	}
	slog.Info("serving", slog.String("base_url", server.URL()))
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	<-ctx.Done()
	stop()
	server.Close()
	slog.Info("served", slog.Any("counts", server.Counts()))
}
