package embedtest_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"testing"
	"time"

	"go.uber.org/goleak"

	"keyfold/internal/testserver/embedtest"
	"keyfold/internal/testserver/must"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// post asks for one vector per input and returns the status and the body.
func post(t *testing.T, s *embedtest.Server, inputs ...string) (int, []byte) {
	t.Helper()
	body, err := json.Marshal(map[string]any{"model": "m", "input": inputs, "dimensions": 4})
	must.OK(t, err)
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: time.Minute}
	response, err := client.Post(s.URL()+"/embeddings", "application/json", bytes.NewReader(body))
	if err != nil {
		return 0, nil
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	must.OK(t, err)
	return response.StatusCode, answer
}

type answer struct {
	Data []struct {
		Index     int       `json:"index"`
		Embedding []float32 `json:"embedding"`
	} `json:"data"`
	Usage struct {
		Total int `json:"total_tokens"`
	} `json:"usage"`
}

func TestAnswersAndCounts(t *testing.T) {
	s := embedtest.Start(t, embedtest.Config{})
	var first, second answer
	for _, a := range []*answer{&first, &second} {
		status, body := post(t, s, "mug", "cup")
		if err := json.Unmarshal(body, a); err != nil || status != http.StatusOK {
			t.Fatalf("%d, %v: %s", status, err, body)
		}
	}
	if len(first.Data) != 2 || len(first.Data[0].Embedding) != 4 || first.Data[1].Index != 1 || first.Usage.Total != 2 {
		t.Errorf("answered %+v", first)
	}
	if first.Data[1].Embedding[0] != second.Data[1].Embedding[0] {
		t.Error("a text has two vectors")
	}
	if n := s.Counts(); n.Requests != 2 || n.Answered != 2 || n.Inputs != 4 || n.Embedded != 4 || n.Tokens != 4 || n.MostAt != 1 {
		t.Errorf("counts %+v", n)
	}
	if s.Asked()["mug"] != 2 {
		t.Errorf("asked %v", s.Asked())
	}
}

// Shares of requests fail as they should, and what is counted adds up.
func TestSharesOfFaults(t *testing.T) {
	s := embedtest.Start(t, embedtest.Config{Seed: 7, Faults: embedtest.Faults{
		TooMany: 0.2, ServerError: 0.2, HangUp: 0.2, RetryAfter: time.Second,
		Refuse: func(input string) bool { return input == "bad" },
	}})
	got := map[int]int{}
	for range 300 {
		status, _ := post(t, s, "mug")
		got[status]++
	}
	for _, status := range []int{200, 429, 500, 0} {
		if got[status] < 30 {
			t.Errorf("%d answers of status %d", got[status], status)
		}
	}
	if status, _ := post(t, s, "good", "bad"); status != http.StatusBadRequest {
		t.Errorf("a refused input was answered %d", status)
	}
	if n := s.Counts(); n.Answered != got[200] || n.Faulty != got[429]+got[500]+got[0] || n.Refused != 1 || n.Requests != 301 {
		t.Errorf("counts %+v, statuses %v", n, got)
	}
}

func TestKeysAndModels(t *testing.T) {
	s := embedtest.Start(t, embedtest.Config{Key: "k"})
	if status, _ := post(t, s, "mug"); status != http.StatusUnauthorized {
		t.Errorf("without the key: %d", status)
	}
	s = embedtest.Start(t, embedtest.Config{Model: "other"})
	if status, _ := post(t, s, "mug"); status != http.StatusNotFound {
		t.Errorf("for another model: %d", status)
	}
}

// Closing ends what hangs.
func TestCloseEndsHangs(t *testing.T) {
	s := embedtest.Start(t, embedtest.Config{Faults: embedtest.Faults{Hang: 1}})
	done := make(chan struct{})
	go func() {
		defer close(done)
		post(t, s, "mug")
	}()
	for s.Counts().Requests == 0 {
		time.Sleep(time.Millisecond)
	}
	s.Close()
	<-done
}
