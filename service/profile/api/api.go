package api

import (
	"context"
	_ "embed" // the description
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"keyfold/engine"
	"keyfold/engine/metric"
	"keyfold/service/profile/recommend"
	"keyfold/service/profile/users"
	"keyfold/source/httpapi"
)

// The paths that are answered; each ends with what its {id} is asked for.
const (
	usersPath           = "/v1/users/"
	productsPath        = "/v1/products/"
	recommendationsPath = "/v1/recommendations"
)

// openAPI describes every path, status and field that is answered.
//
//go:embed openapi.json
var openAPI []byte

// Ports are what the API works with.
type Ports struct {
	Recommender *recommend.Recommender
	// Ready returns why products cannot be found now, or nil.
	Ready func(context.Context) error
}

// API answers requests. It implements [httpapi.Application].
type API struct {
	ports   Ports
	latency *metric.Histogram // of answers with products
}

// New returns the API over its ports.
func New(ports Ports) *API {
	const ms = time.Millisecond
	return &API{ports, metric.NewHistogram(ms, 2*ms, 5*ms, 10*ms, 20*ms, 50*ms, 100*ms, 200*ms, 500*ms, 1000*ms, 5000*ms)}
}

// Register adds the API's series to set.
func (a *API) Register(set *metric.Set) {
	set.Histogram("keyfold_recommend_duration_seconds", "How long a request for profiles or products took.", a.latency)
}

// Requests returns how many requests were answered.
func (a *API) Requests() int64 { return a.latency.Count() }

// About implements [httpapi.Application].
func (a *API) About() httpapi.About {
	return httpapi.About{
		OpenAPI: openAPI,
		Cannot:  "profiles or products cannot be read", Failed: "a request met a store that does not answer",
		Then: "requests are answered 503, or from what was read before, until then", Again: "profiles are read again",
	}
}

// Ready implements [httpapi.Application].
func (a *API) Ready(ctx context.Context) error { return a.ports.Ready(ctx) }

// Serve implements [httpapi.Application].
func (a *API) Serve(r *httpapi.Request) *httpapi.Answer {
	serve, method := a.route(r)
	switch {
	case serve == nil:
		return nil
	case r.Method != method && (method != http.MethodGet || r.Method != http.MethodHead):
		return httpapi.RefuseMethod(r.Method, allowed(method))
	}
	if refused := r.Require(httpapi.ScopeRead); refused != nil {
		return refused
	}
	began := time.Now()
	defer func() { a.latency.Observe(time.Since(began)) }()
	return serve()
}

func allowed(method string) string {
	if method == http.MethodGet {
		return "GET, HEAD"
	}
	return method
}

// route returns what answers a path, and by which method.
func (a *API) route(r *httpapi.Request) (serve func() *httpapi.Answer, method string) {
	path := r.URL.EscapedPath()
	if path == recommendationsPath {
		return func() *httpapi.Answer { return a.many(r) }, http.MethodPost
	}
	for _, route := range []struct {
		prefix, suffix string
		serve          func(*httpapi.Request, int32) *httpapi.Answer
	}{
		{usersPath, "/recommendations", a.recommendations},
		{usersPath, "", a.user},
		{productsPath, "/similar", a.similar},
	} {
		id, ok := strings.CutPrefix(path, route.prefix)
		if id, ok = cutSuffix(id, route.suffix, ok); !ok || strings.Contains(id, "/") {
			continue
		}
		return func() *httpapi.Answer {
			n, err := strconv.ParseInt(id, 10, 32)
			if err != nil || n < 1 {
				return refuse(http.StatusBadRequest, "bad_id", "the id in the path must be a number from 1 to 2147483647")
			}
			return route.serve(r, int32(n))
		}, http.MethodGet
	}
	return nil, ""
}

func cutSuffix(s, suffix string, ok bool) (string, bool) {
	cut, has := strings.CutSuffix(s, suffix)
	return cut, ok && has
}

// user answers with a profile.
func (a *API) user(r *httpapi.Request, id int32) *httpapi.Answer {
	q, err := readQuery(r.URL, "vector")
	vector := q.flag("vector")
	if err = errors.Join(err, q.err()); err != nil {
		return badParameter(err)
	}
	p, age, err := a.ports.Recommender.Profile(r.Context(), id)
	switch {
	case err != nil:
		return failed(err)
	case p == nil:
		return refuse(http.StatusNotFound, "user_unknown", "the user has no profile: none of the user's events is folded yet")
	case p.Erased():
		return refuse(http.StatusNotFound, "user_erased", "the user was erased")
	}
	document := users.DocumentOf(p)
	if !vector {
		document.Embedding, document.EmbeddingShort = nil, nil
	}
	return &httpapi.Answer{Status: http.StatusOK, Body: shownUser{document, age.Seconds()}}
}

// shownUser is a profile as it is answered.
type shownUser struct {
	users.Document
	StaleSeconds float64 `json:"stale_seconds,omitempty"`
}

// recommendations answers with products for a user.
func (a *API) recommendations(r *httpapi.Request, id int32) *httpapi.Answer {
	o, err := optionsOf(r.URL)
	if err != nil {
		return badParameter(err)
	}
	if refused := a.unread(r.Context()); refused != nil {
		return refused
	}
	answer, err := a.ports.Recommender.ForUser(r.Context(), id, o)
	if err != nil {
		return failed(err)
	}
	return &httpapi.Answer{Status: http.StatusOK, Body: answer}
}

// similar answers with products near to a product.
func (a *API) similar(r *httpapi.Request, id int32) *httpapi.Answer {
	q, err := readQuery(r.URL, "k", "category", "diversity")
	o := q.options()
	if err = errors.Join(err, q.err(), o.Check()); err != nil {
		return badParameter(err)
	}
	if refused := a.unread(r.Context()); refused != nil {
		return refused
	}
	answer, err := a.ports.Recommender.Similar(r.Context(), id, o)
	if errors.Is(err, engine.ErrMissing) {
		return refuse(http.StatusNotFound, "product_unknown", "no product with this id and a usable vector is in the catalogue")
	}
	if err != nil {
		return failed(err)
	}
	return &httpapi.Answer{Status: http.StatusOK, Body: answer}
}

// unread refuses a request for products until the catalogue was read. An answer of a part of
// the products would look like one of all.
func (a *API) unread(ctx context.Context) *httpapi.Answer {
	if a.ports.Ready(ctx) == nil {
		return nil
	}
	return httpapi.Unavailable("catalogue_unread", "the catalogue is not read yet: try again", nil)
}

// failed answers for an error: the request's own, or the store's. That one user's profile
// cannot be used, or that the history is away, says nothing of the other requests.
func failed(err error) *httpapi.Answer {
	if engine.KindOf(err) == engine.Permanent {
		return refuse(http.StatusUnprocessableEntity, engine.ReasonOf(err), err.Error())
	}
	answer := httpapi.Unavailable("store_unavailable", "profiles or the history cannot be read now: try again", err)
	_, unreadable := errors.AsType[*engine.UnreadableError](err)
	answer.Beside = unreadable || errors.Is(err, recommend.ErrHistory) || engine.ReasonOf(err) == recommend.ReasonOtherModel
	return answer
}

func badParameter(err error) *httpapi.Answer {
	return refuse(http.StatusBadRequest, "bad_parameter", err.Error())
}

// refuse answers with one fault of the request as a whole.
func refuse(status int, reason, text string) *httpapi.Answer {
	return httpapi.Refuse(status, httpapi.Fault{Reason: reason, Error: text})
}

// optionsOf reads the parameters of recommendations.
func optionsOf(u *url.URL) (recommend.Options, error) {
	q, err := readQuery(u, "k", "exclude", "category", "diversity", "mix", "popularity", "explain")
	o := q.options()
	if exclude := q.text("exclude"); exclude != "" {
		o.Exclude = recommend.Exclusion(exclude)
	}
	o.Mix = q.mix(o.Mix)
	o.Popularity = q.number("popularity", o.Popularity)
	o.Explain = q.flag("explain")
	return o, errors.Join(err, q.err(), o.Check())
}
