package embedtest

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"math"
	"net/http"
	"strconv"
	"time"

	"keyfold/source/vector"
)

// maxBody bounds a request.
const maxBody = 16 << 20

// ask is a request's body.
type ask struct {
	Input      json.RawMessage `json:"input"`
	Model      string          `json:"model"`
	Dimensions int             `json:"dimensions"`
	Encoding   string          `json:"encoding_format"`
}

type item struct {
	Object    string `json:"object"`
	Index     int    `json:"index"`
	Embedding any    `json:"embedding"`
}

type reply struct {
	Object string `json:"object"`
	Data   []item `json:"data"`
	Model  string `json:"model"`
	Usage  usage  `json:"usage"`
}

type usage struct {
	Prompt int `json:"prompt_tokens"`
	Total  int `json:"total_tokens"`
}

func (s *Server) embeddings(w http.ResponseWriter, r *http.Request) {
	var a ask
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody)).Decode(&a); err != nil {
		refuse(w, http.StatusBadRequest, "invalid_json", "", err.Error())
		return
	}
	inputs, ok := a.inputs()
	faults, f := s.begin(inputs)
	outcome := faulty
	defer func() { s.end(outcome, inputs) }()

	if faults.Latency > 0 && !s.wait(r, faults.Latency) {
		return
	}
	switch {
	case s.config.Key != "" && r.Header.Get("Authorization") != "Bearer "+s.config.Key:
		refuse(w, http.StatusUnauthorized, "invalid_api_key", "", "Incorrect API key provided")
	case faults.Status != 0:
		pause(w, faults)
		refuse(w, faults.Status, faults.Code, "", faults.Message)
	case s.config.Model != "" && a.Model != s.config.Model:
		refuse(w, http.StatusNotFound, "model_not_found", "model", "The model does not exist: "+a.Model)
	case !ok || len(inputs) == 0:
		outcome = refused
		refuse(w, http.StatusBadRequest, "invalid_input", "input", "input must be a text or an array of texts")
	case faults.MaxInputs > 0 && len(inputs) > faults.MaxInputs:
		outcome = refused
		refuse(w, http.StatusRequestEntityTooLarge, "too_many", "input", "too many inputs")
	case faults.refuses(inputs):
		outcome = refused
		refuse(w, http.StatusBadRequest, "invalid_input", "input", "an input is refused")
	case f == none:
		outcome = answered
		s.answer(w, r, a, inputs, faults, none)
	default:
		s.fail(w, r, a, inputs, faults, f)
	}
}

// inputs reads one text or several.
func (a *ask) inputs() ([]string, bool) {
	var one string
	if json.Unmarshal(a.Input, &one) == nil {
		return []string{one}, one != ""
	}
	var many []string
	if json.Unmarshal(a.Input, &many) != nil {
		return nil, false
	}
	for _, text := range many {
		if text == "" {
			return many, false
		}
	}
	return many, true
}

func (f *Faults) refuses(inputs []string) bool {
	for _, input := range inputs {
		if f.Refuse != nil && f.Refuse(input) {
			return true
		}
	}
	return false
}

// fail answers a request with a fault.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, a ask, inputs []string, faults Faults, f fault) {
	switch f {
	case tooMany:
		pause(w, faults)
		refuse(w, http.StatusTooManyRequests, "rate_limit_exceeded", "", "Rate limit reached")
	case serverError:
		refuse(w, http.StatusInternalServerError, "", "", "The server had an error")
	case hang:
		select {
		case <-r.Context().Done():
		case <-s.closing:
		}
	case hangUp:
		panic(http.ErrAbortHandler)
	default:
		s.answer(w, r, a, inputs, faults, f)
	}
}

func pause(w http.ResponseWriter, f Faults) {
	if f.RetryAfter > 0 {
		w.Header().Set("Retry-After-Ms", strconv.FormatInt(f.RetryAfter.Milliseconds(), 10))
		w.Header().Set("Retry-After", strconv.FormatFloat(math.Ceil(f.RetryAfter.Seconds()), 'f', 0, 64))
	}
}

func refuse(w http.ResponseWriter, status int, code, param, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"error": map[string]any{
		"message": message, "type": code, "code": code, "param": param,
	}})
}

// answer sends vectors, with a fault in them if there is one.
func (s *Server) answer(w http.ResponseWriter, r *http.Request, a ask, inputs []string, faults Faults, f fault) {
	if a.Dimensions == 0 {
		a.Dimensions = s.config.Dimensions
	}
	hash, err := vector.NewHash(a.Dimensions)
	if err != nil {
		refuse(w, http.StatusBadRequest, "invalid_dimensions", "dimensions", err.Error())
		return
	}
	vectors, err := hash.Embed(r.Context(), inputs)
	if err != nil { // the client has gone
		return
	}
	spoil(vectors, f)
	out := reply{Object: "list", Model: a.Model, Usage: usage{tokens(inputs), tokens(inputs)}}
	for i, v := range vectors {
		out.Data = append(out.Data, item{"embedding", i, encode(v, a.Encoding)})
	}
	switch f {
	case wrongCount:
		out.Data = out.Data[1:]
	case wrongIndex:
		out.Data[0].Index = len(out.Data) // of two: one stands twice; of one: none has 0
		if len(out.Data) > 1 {
			out.Data[0].Index = 1
		}
	}
	if faults.Shuffle {
		s.shuffle(out.Data)
	}
	body, err := json.Marshal(out)
	if err != nil { // a float that JSON cannot hold
		body = []byte(`{"data":[{"index":0,"embedding":[NaN]}]}`)
	}
	if f == truncate {
		body = body[:len(body)/2]
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(body)
}

// spoil puts a fault into the first vector.
func spoil(vectors [][]float32, f fault) {
	switch f {
	case wrongDimensions:
		vectors[0] = vectors[0][1:]
	case notFinite:
		vectors[0][0] = float32(math.NaN())
	case zero:
		clear(vectors[0])
	}
}

func encode(v []float32, encoding string) any {
	if encoding != "base64" {
		return v
	}
	packed := make([]byte, 0, 4*len(v))
	for _, c := range v {
		packed = binary.LittleEndian.AppendUint32(packed, math.Float32bits(c))
	}
	return base64.StdEncoding.EncodeToString(packed)
}

// tokens counts as the API does, roughly: a token has some four bytes.
func tokens(inputs []string) int {
	n := 0
	for _, text := range inputs {
		n += 1 + len(text)/4
	}
	return n
}

// wait reports whether both sides were still there after d.
func (s *Server) wait(r *http.Request, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-r.Context().Done():
	case <-s.closing:
	}
	return false
}
