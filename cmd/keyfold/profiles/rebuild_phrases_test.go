package profiles

import (
	"strings"
	"testing"

	"keyfold/engine"
	"keyfold/engine/profile"
	"keyfold/internal/settings"
	"keyfold/internal/testserver/embedtest"
	"keyfold/internal/testserver/must"
	"keyfold/service/profile/embedding"
	"keyfold/source/vector/openai"
)

// lines hands over each line that is logged.
type lines chan string

func (l lines) Write(line []byte) (int, error) {
	l <- string(line)
	return len(line), nil
}

// A rebuild waits out what passes, and says at which attempt, for how long and why.
func TestRebuildWaitsForPhrases(t *testing.T) {
	const dimensions, key = 8, "sk-of-a-test"
	api := embedtest.Start(t, embedtest.Config{Dimensions: dimensions, Model: openai.DefaultModel, Key: key, Seed: 7})
	told := make(lines, 1000)
	log, _, err := settings.Log{Level: "info", Format: "json"}.Logger(told)
	must.OK(t, err)
	config, err := embedding.Settings{Embedder: "openai", Key: key, BaseURL: api.URL()}.Config(dimensions, profile.Learned{})
	must.OK(t, err)
	config.Failures = 100
	way, err := embedding.New(config, 0, log)
	must.OK(t, err)
	defer func() { must.OK(t, way.Close()) }()

	api.SetFaults(embedtest.Faults{ServerError: 1})
	done := make(chan engine.Resolved, 1)
	go func() { done <- patientPhrases{way, log}.Resolve(t.Context(), []string{"trail shoes"})[0] }()
	for waits := false; !waits; {
		select {
		case line := <-told:
			waits = strings.Contains(line, `"phrases":1,"attempt":1,"retry_in":"2s","error":"`)
		case answer := <-done:
			t.Fatalf("no line tells of the wait; the answer is %+v", answer)
		}
	}
	api.SetFaults(embedtest.Faults{})
	if answer := <-done; answer.Err != nil || len(answer.Vector) != dimensions {
		t.Errorf("%+v", answer)
	}
}
