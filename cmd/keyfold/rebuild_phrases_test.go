package main

import (
	"testing"

	embedtest "keyfold/bench/testserver/embeddings"
	"keyfold/cmd/embedding"
	"keyfold/cmd/settings"
	"keyfold/engine"
	"keyfold/source/vector/openai"
)

// A rebuild waits out what passes, and says at which attempt, for how long and why.
func TestRebuildWaitsForPhrases(t *testing.T) {
	api := embedtest.Start(t, embedtest.Config{Dimensions: dimensions, Model: openai.DefaultModel, Key: apiKey, Seed: 7})
	var told lockedBuffer
	log, err := settings.Log{Level: "info", Format: "json"}.Logger(&told)
	must(t, err)
	config, err := settings.Embedding{
		Embedder: "openai", Key: apiKey, BaseURL: api.URL(), MaxInputs: "8", Timeout: "5", CacheTTL: "60",
	}.Config(dimensions)
	must(t, err)
	config.Failures = 100
	way, err := embedding.New(config, dimensions, 0, log)
	must(t, err)
	defer func() { must(t, way.Close()) }()

	api.SetFaults(embedtest.Faults{ServerError: 1})
	done := make(chan engine.Resolved, 1)
	go func() { done <- patientPhrases{way, log}.Resolve(t.Context(), []string{"trail shoes"})[0] }()
	eventually(t, "an attempt is logged", func() error {
		return (&daemon{log: &told}).logged(`"phrases":1,"attempt":1,"in":"2s","error":"`)
	})
	api.SetFaults(embedtest.Faults{})
	if answer := <-done; answer.Err != nil || len(answer.Vector) != dimensions {
		t.Errorf("%+v\n%s", answer, told.String())
	}
}
