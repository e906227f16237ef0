package recommend

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"gonum.org/v1/gonum/floats"

	"keyfold/engine"
	"keyfold/engine/profile"
	"keyfold/service/profile/explanation"
	"keyfold/source/catalog/index"
)

// Bounds of a request.
const (
	MaxK = 200
	// pool is how many candidates an answer that is spread chooses from, for each of its
	// products, and mostPool how many a long one does: each product that is chosen is compared
	// with all of them.
	pool     = 10
	mostPool = 500
)

// Profiles is where profiles are read.
type Profiles interface {
	Load(ctx context.Context, users []int32) ([]*profile.Profile, error)
}

// History is where it is known what users did.
type History interface {
	// Events returns the user's newest events, the oldest first, with what keeps each out
	// of the profile, and a note where some are missing. p is nil where there is no
	// profile.
	Events(ctx context.Context, user int32, p *profile.Profile) (events []explanation.Event, note string, err error)
	// Products returns the products that the user has bought, or has any event of.
	Products(ctx context.Context, user int32, bought bool) ([]int32, error)
	// Counts returns how many events products had in the days before the newest event.
	Counts(ctx context.Context, days int) (map[int32]int64, error)
}

// Ports are what a recommender works with.
type Ports struct {
	Profiles Profiles
	Products Products
	History  History                // nil: it is not known what users did
	Phrases  engine.Vectors[string] // for explanations
	Laws     profile.Config
}

// Recommender answers requests. It is safe for concurrent use.
type Recommender struct {
	ports    Ports
	config   Config
	profiles *knownProfiles
	popular  popularity
}

// New returns a recommender.
func New(config Config, ports Ports) (*Recommender, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	return &Recommender{ports: ports, config: config, profiles: newKnownProfiles(ports.Profiles, config)}, nil
}

// Exclusion says which products a user is not shown.
type Exclusion string

// The exclusions.
const (
	ExcludeNothing Exclusion = "none"
	ExcludeBought  Exclusion = "bought" // products with a purchase of the user
	ExcludeSeen    Exclusion = "seen"   // products with any event of the user
)

// TypeOf returns the type of events that a history looks for: purchases, or 0 for all.
func TypeOf(bought bool) profile.EventType {
	if bought {
		return profile.ProductPurchase
	}
	return 0
}

// Options of an answer.
type Options struct {
	K         int
	Exclude   Exclusion
	Category  string  // "": of any
	Diversity float64 // from 0, the nearest, to 1, as unlike each other as can be
	Mix       float64 // the second vector's share; -1: the configured one
	// Popularity is the share that the popularity of the last days has of a product's score.
	Popularity float64
	Explain    bool
}

// DefaultOptions returns the options of a request that names none.
func DefaultOptions() Options { return Options{K: 10, Exclude: ExcludeNothing, Mix: -1} }

// Check reports every fault of the options at once, by the names of the API's parameters.
func (o Options) Check() error {
	var faults engine.Faults
	faults.If(o.K < 1 || o.K > MaxK, "k is %d: it must be between 1 and %d", o.K, MaxK)
	faults.If(!slices.Contains([]Exclusion{ExcludeNothing, ExcludeBought, ExcludeSeen}, o.Exclude), "exclude is %.40q: it must be %s, %s or %s",
		o.Exclude, ExcludeNothing, ExcludeBought, ExcludeSeen)
	faults.If(!(o.Diversity >= 0 && o.Diversity <= 1), "diversity is %v: it must be between 0 and 1", o.Diversity)
	faults.If(!(o.Popularity >= 0 && o.Popularity <= 1), "popularity is %v: it must be between 0 and 1", o.Popularity)
	faults.If(o.Mix != -1 && !(o.Mix >= 0 && o.Mix <= 1), "mix is %v: it must be between 0 and 1", o.Mix)
	return faults.Err()
}

// ReasonOtherModel is of the error for a profile whose vector cannot be compared with the
// products.
const ReasonOtherModel = "other_model"

// ErrHistory is in the error of an answer that needed the history, which does not answer now.
// Answers that do not need it are given as ever.
var ErrHistory = errors.New("the history of events cannot be read")

func ofHistory(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrHistory, err)
}

// What an answer is made from.
const (
	ByProfile    = "profile"
	ByPopularity = "popularity" // of the last days: the user has no profile, or one without a direction
	ByVector     = "vector"
	ByProduct    = "product"
	ByNothing    = "none" // among the answers to several users: this one's cannot be made
)

// OfOneUser reports whether an error of [Recommender.ForUser] is of the user's profile alone.
func OfOneUser(err error) bool {
	_, unreadable := errors.AsType[*engine.UnreadableError](err)
	return unreadable || slices.Contains([]string{ReasonOtherModel, reasonNoMix}, engine.ReasonOf(err))
}

// reasonNoMix: the request names a mix, and the profile has one vector.
const reasonNoMix = "mix_unavailable"

// Answer is what is recommended.
type Answer struct {
	UserID    int32      `json:"user_id,omitempty"`
	ProductID int32      `json:"product_id,omitempty"`
	Basis     string     `json:"basis"`
	Version   int32      `json:"profile_version,omitempty"`
	Updated   *time.Time `json:"profile_last_updated,omitempty"` // of the newest event in it
	Mix       float64    `json:"mix,omitempty"`
	// Popularity is the share of popularity in the scores.
	Popularity float64 `json:"popularity,omitempty"`
	// StaleSeconds is how long ago the profile was read, where the store does not answer.
	StaleSeconds float64   `json:"stale_seconds,omitempty"`
	Note         string    `json:"note,omitempty"`
	why          string    // popularity answers: a predicate of the user
	Products     []Product `json:"recommendations"`
}

// Product is one that is recommended.
type Product struct {
	ID       int32   `json:"product_id"`
	Name     string  `json:"product_name,omitempty"`
	Category string  `json:"category,omitempty"`
	Score    float64 `json:"score"` // cosine to the vector, with popularity where it is asked for; with basis popularity the number of events
	// Cosine and the share that popularity has of the score; 0 where no popularity was asked for.
	Cosine          float64 `json:"cosine,omitempty"`
	PopularityShare float64 `json:"popularity_share,omitempty"`
	// Because names the events with the largest shares of the cosine.
	Because   []explanation.Part `json:"because,omitempty"`
	Remainder float64            `json:"remainder_share,omitempty"`
}

// Profile returns a user's profile, nil where there is none, and how long ago it was read
// where the store does not answer now.
func (r *Recommender) Profile(ctx context.Context, user int32) (p *profile.Profile, age time.Duration, err error) {
	return r.profiles.load(ctx, user)
}

// ForUser recommends products to a user.
//
// Errors: the store's, where it does not answer and the profile is not known from before;
// the history's, where the answer needs it; permanent with reason mix_unavailable or
// no_history where the request cannot be answered as it is.
func (r *Recommender) ForUser(ctx context.Context, user int32, o Options) (*Answer, error) {
	if err := r.answerable(o); err != nil {
		return nil, err
	}
	p, age, err := r.profiles.load(ctx, user)
	if err != nil {
		return nil, err
	}
	a := &Answer{UserID: user, Basis: ByProfile, StaleSeconds: age.Seconds()}
	events, err := r.events(ctx, user, p, o, a)
	if err != nil {
		return nil, err
	}
	skip, err := r.skipped(ctx, user, p, o)
	if err != nil {
		return nil, err
	}
	switch {
	case p == nil, p.Erased():
		return a, r.fillPopular(ctx, a, o, skip, "has no profile")
	case r.withoutDirection(p.Mass):
		a.Version = p.Version
		return a, r.fillPopular(ctx, a, o, skip, "has a profile without a direction: what it was told was taken back")
	}
	query, err := r.query(p, &o)
	if err != nil {
		return nil, err
	}
	updated := p.Updated.Time()
	popular, err := r.blendOf(ctx, o)
	if err != nil {
		return nil, err
	}
	a.Version, a.Updated, a.Mix, a.Popularity = p.Version, &updated, o.Mix, o.Popularity
	if a.Products, err = r.nearest(ctx, query, o, skip, popular); err != nil {
		return nil, err
	}
	if o.Explain {
		return a, r.explain(ctx, p, events, o.Mix, a)
	}
	return a, nil
}

// withoutDirection reports whether a vector of this mass has nothing to go by: what it was made
// of was taken back.
func (r *Recommender) withoutDirection(mass float64) bool {
	return mass == 0 || mass < r.ports.Laws.Weights.Faint()
}

// answerable refuses what needs the history of events where there is none.
func (r *Recommender) answerable(o Options) error {
	switch {
	case r.ports.History != nil:
		return nil
	case o.Exclude != ExcludeNothing:
		return engine.PermanentError("no_history", fmt.Errorf("exclude=%s needs the history of events, which this process does not have", o.Exclude))
	case o.Popularity > 0:
		return engine.PermanentError("no_history", fmt.Errorf("popularity=%v needs the history of events, which this process does not have", o.Popularity))
	}
	return nil
}

// events reads what the user did, where reasons are asked for.
func (r *Recommender) events(ctx context.Context, user int32, p *profile.Profile, o Options, a *Answer) (events []explanation.Event, err error) {
	if r.ports.History == nil || p == nil || p.Erased() || !o.Explain {
		return nil, nil
	}
	events, a.Note, err = r.ports.History.Events(ctx, user, p)
	return events, ofHistory(err)
}

// skipped returns the products that a user is not shown.
func (r *Recommender) skipped(ctx context.Context, user int32, p *profile.Profile, o Options) (map[int32]bool, error) {
	skip := map[int32]bool{}
	if o.Exclude == ExcludeNothing || p.Erased() {
		return skip, nil
	}
	ids, err := r.ports.History.Products(ctx, user, o.Exclude == ExcludeBought)
	for _, id := range ids {
		skip[id] = true
	}
	return skip, ofHistory(err)
}

// query returns the unit vector that products are compared with, and sets the mix in force.
func (r *Recommender) query(p *profile.Profile, o *Options) ([]float64, error) {
	if len(p.Vector) != r.ports.Laws.Dimensions || p.Model != "" && p.Model != r.ports.Laws.Model {
		return nil, engine.ConfigurationError(ReasonOtherModel, fmt.Errorf("the profile of user %d has %d components of model %q, the products %d of %q",
			p.UserID, len(p.Vector), p.Model, r.ports.Laws.Dimensions, r.ports.Laws.Model))
	}
	if o.Mix < 0 {
		o.Mix = r.config.Mix
		if p.Short.Vector == nil {
			o.Mix = 0 // the configured mix is of those that can be mixed
		}
	}
	if p.Short.Vector != nil && r.withoutDirection(p.Short.Mass) {
		o.Mix = 0
	}
	v, err := p.Mixed(o.Mix)
	if err != nil {
		return nil, engine.PermanentError(reasonNoMix, err)
	}
	return v, nil
}

// ForVector recommends products near to a vector.
func (r *Recommender) ForVector(ctx context.Context, vector []float64, o Options) (*Answer, error) {
	if len(vector) != r.ports.Laws.Dimensions {
		return nil, engine.PermanentError("wrong_dimensions", fmt.Errorf("the vector has %d components, the products have %d", len(vector), r.ports.Laws.Dimensions))
	}
	// Divided by its largest component first: the inverse of a tiny length is not finite.
	unit, largest := slices.Clone(vector), floats.Norm(vector, math.Inf(1))
	for i := range unit {
		unit[i] /= largest
	}
	length := floats.Norm(unit, 2)
	if !(length > 0) || length*0 != 0 {
		return nil, engine.PermanentError("zero_vector", fmt.Errorf("the vector's largest component is %v: it must be a finite number above 0", largest))
	}
	floats.Scale(1/length, unit)
	products, err := r.nearest(ctx, unit, o, nil, nil)
	return &Answer{Basis: ByVector, Products: products}, err
}

// Similar returns the products nearest to a product, or an error that is
// [engine.ErrMissing] where it has no usable vector.
func (r *Recommender) Similar(ctx context.Context, id int32, o Options) (*Answer, error) {
	of, err := r.ports.Products.Products(ctx, []int32{id})
	if err != nil {
		return nil, err
	}
	if len(of) == 0 {
		return nil, fmt.Errorf("product %d: %w", id, engine.ErrMissing)
	}
	products, err := r.nearest(ctx, widen(of[0].Vector), o, map[int32]bool{id: true}, nil)
	return &Answer{ProductID: id, Basis: ByProduct, Products: products}, err
}

// nearest searches, with popularity where it is not nil, and spreads the answer.
func (r *Recommender) nearest(ctx context.Context, unit []float64, o Options, skip map[int32]bool, popular *blend) ([]Product, error) {
	q := index.Query{Vector: unit, K: o.K, Category: o.Category, Skip: skip}
	if o.Diversity > 0 {
		q.K = min(pool*o.K, mostPool)
	}
	found, err := r.search(ctx, q, popular)
	if err == nil && o.Diversity > 0 {
		found, err = spread(ctx, r.ports.Products, found, o.K, o.Diversity)
	}
	if err != nil {
		return nil, err
	}
	all := make([]Product, len(found))
	for i, f := range found {
		all[i] = Product{ID: f.ID, Name: f.Name, Category: f.Category, Score: f.Score}
	}
	if popular != nil {
		err = popular.explain(ctx, r.ports.Products, unit, all)
	}
	return all, err
}

func (r *Recommender) search(ctx context.Context, q index.Query, popular *blend) ([]index.Found, error) {
	if popular != nil {
		return popular.search(ctx, r.ports.Products, q)
	}
	return r.ports.Products.Search(ctx, q)
}
