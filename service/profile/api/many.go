package api

import (
	"net/http"

	"github.com/go-json-experiment/json"

	"keyfold/engine"
	"keyfold/service/profile/recommend"
	"keyfold/source/httpapi"
)

// MaxUsers is how many users one request may name.
const MaxUsers = 100

// asked is the body of POST /v1/recommendations: for users or for a vector. What is left out
// is at its default.
type asked struct {
	Users      []int32              `json:"users"`
	Vector     []float64            `json:"vector"`
	K          *int                 `json:"k"`
	Exclude    *recommend.Exclusion `json:"exclude"`
	Category   string               `json:"category"`
	Diversity  float64              `json:"diversity"`
	Mix        *float64             `json:"mix"`
	Popularity float64              `json:"popularity"`
	Explain    bool                 `json:"explain"`
}

// answers is what is answered, aligned with the users or one for the vector.
type answers struct {
	Answers []*recommend.Answer `json:"answers"`
}

// many answers for several users, or for a vector.
func (a *API) many(r *httpapi.Request) *httpapi.Answer {
	if refused := r.JSON(); refused != nil {
		return refused
	}
	body, refused := r.Read()
	if refused != nil {
		return refused
	}
	ask, o, err := readAsked(body)
	if err != nil {
		return refuse(http.StatusBadRequest, engine.ReasonOf(err), err.Error())
	}
	if refused := a.unread(r.Context()); refused != nil {
		return refused
	}
	all := answers{Answers: []*recommend.Answer{}}
	if ask.Users == nil {
		answer, err := a.ports.Recommender.ForVector(r.Context(), ask.Vector, o)
		if err != nil {
			return failed(err)
		}
		all.Answers = append(all.Answers, answer)
	}
	for _, user := range ask.Users {
		answer, err := a.ports.Recommender.ForUser(r.Context(), user, o)
		switch {
		case err != nil && recommend.OfOneUser(err):
			answer = &recommend.Answer{UserID: user, Basis: recommend.ByNothing, Note: err.Error(), Products: []recommend.Product{}}
		case err != nil:
			return failed(err)
		}
		all.Answers = append(all.Answers, answer)
	}
	return &httpapi.Answer{Status: http.StatusOK, Body: all}
}

// readAsked reads a body. It refuses unknown names: a misspelt one would quietly change the
// answer.
func readAsked(body []byte) (ask asked, o recommend.Options, err error) {
	o = recommend.DefaultOptions()
	if err := json.Unmarshal(body, &ask, json.RejectUnknownMembers(true)); err != nil {
		return ask, o, engine.PermanentError(engine.ReasonMalformedJSON, err)
	}
	if ask.K != nil {
		o.K = *ask.K
	}
	if ask.Exclude != nil {
		o.Exclude = *ask.Exclude
	}
	if ask.Mix != nil {
		o.Mix = *ask.Mix
	}
	o.Category, o.Diversity, o.Popularity, o.Explain = ask.Category, ask.Diversity, ask.Popularity, ask.Explain
	var faults engine.Faults
	faults.If((ask.Users == nil) == (ask.Vector == nil), "give either users or a vector")
	faults.If(len(ask.Users) > MaxUsers, "users has %d ids: at most %d can be asked for at once", len(ask.Users), MaxUsers)
	for i, user := range ask.Users {
		faults.If(user < 1, "users[%d] is %d: it must be at least 1", i, user)
	}
	faults.If(ask.Mix != nil && *ask.Mix < 0, "mix is %v: it must be between 0 and 1", o.Mix)
	faults.If(ask.Vector != nil && (ask.Explain || ask.Mix != nil || ask.Popularity != 0 || o.Exclude != recommend.ExcludeNothing), "explain, mix, popularity and exclude are of users: a vector has none")
	if err := o.Check(); err != nil {
		faults = append(faults, err)
	}
	if len(faults) > 0 {
		return ask, o, engine.PermanentError("bad_parameter", faults.Err())
	}
	return ask, o, nil
}
