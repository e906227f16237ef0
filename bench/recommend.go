package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strconv"
	"sync"
	"time"

	"gonum.org/v1/gonum/floats"

	"keyfold/engine/profile"
	"keyfold/internal/report"
	"keyfold/service/profile/recommend"
	"keyfold/source/catalog/index"
	"keyfold/source/sample"
	"keyfold/source/vector"
)

// promisedRecommendation is how soon 99 of 100 recommendations are to be there, and
// promisedRecall the share of the nearest products that they are to have.
const (
	promisedRecommendation = 20 * time.Millisecond
	promisedRecall         = 0.98
)

// recommendCmd asks a recommender at a rate. Catalogue and profiles are in memory.
type recommendCmd struct {
	Products   int           `default:"100000" help:"Products of the catalogue."`
	Rate       rate          `default:"500/s" help:"Requests per unit of time."`
	For        time.Duration `default:"30s" help:"How long to ask."`
	Users      int           `default:"2000" help:"Users. A user's vector is a mix of those of 1 to 8 products."`
	Interests  int           `default:"2" help:"Kinds of things that a user's products are of; 0: any products."`
	Compared   int           `default:"200" help:"Users whose recommendations are compared with exact search."`
	Dimensions int           `default:"1536" help:"Components of a vector."`
	Random     bool          `help:"Vectors of random components in place of those of names."`
}

// recommendRun is one run.
type recommendRun struct {
	scenario
	*recommendCmd
	random      *rand.Rand
	products    *index.Index
	recommender *recommend.Recommender
	profiles    map[int32]*profile.Profile

	requests sync.WaitGroup
	mu       sync.Mutex
	latency  report.Latencies
	failed   error
}

// Load returns profiles.
func (r *recommendRun) Load(_ context.Context, users []int32) ([]*profile.Profile, error) {
	all := make([]*profile.Profile, len(users))
	for i, user := range users {
		all[i] = r.profiles[user]
	}
	return all, nil
}

// Run builds the catalogue, compares, asks, and reports.
func (c *recommendCmd) Run(ctx context.Context, to *report.Report) error {
	if c.Products < 10 || c.Users < 1 {
		return errors.New("--products must be at least 10, --users at least 1")
	}
	r := &recommendRun{
		recommendCmd: c, random: rand.New(rand.NewPCG(1, 1)), latency: report.NewLatencies(), profiles: map[int32]*profile.Profile{},
	}
	laws := profile.DefaultConfig()
	laws.Dimensions, laws.Model = c.Dimensions, vector.HashModel
	r.products = index.New(laws.Dimensions, laws.Model)
	var err error
	if r.recommender, err = recommend.New(recommend.DefaultConfig(), recommend.Ports{Profiles: r, Products: recommend.InMemory{Index: r.products}, Laws: laws}); err != nil {
		return err
	}
	if err := r.build(ctx, to); err != nil {
		return err
	}
	r.makeUsers()
	recall, err := r.compare(ctx)
	if err != nil {
		return err
	}
	to.Add("recall at 10", "", recall)
	return r.ask(ctx, to, recall)
}

// build puts the catalogue in.
func (r *recommendRun) build(ctx context.Context, to *report.Report) error {
	names := catalogueNames(r.random, r.Products)
	hash, err := vector.NewHash(r.Dimensions)
	if err != nil {
		return err
	}
	cpu, began := cpuTime(), time.Now()
	for i, name := range names {
		vectors, err := hash.Embed(ctx, []string{name.text})
		if err != nil {
			return err
		}
		if r.Random {
			vectors[0] = randomVector(r.random, r.Dimensions)
		}
		r.products.Put(profile.Product{ID: int32(i + 1), Name: name.text, Category: name.category, Vector: vectors[0], Model: vector.HashModel})
	}
	to.Add("products", "", float64(r.products.Len()))
	to.Add("index built", "s", time.Since(began).Seconds())
	to.Add("CPU of building", "s", (cpuTime() - cpu).Seconds())
	to.Add("memory of the index", "MB", float64(r.products.Bytes())/1e6)
	runtime.GC()
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	to.Add("heap", "MB", float64(memory.HeapAlloc)/1e6)
	return nil
}

// catalogueName is what a generated product is called.
type catalogueName struct{ text, category string }

// catalogueNames returns names: a thing of the sample's shop, a maker, a colour, a number.
func catalogueNames(random *rand.Rand, n int) []catalogueName {
	syllables := []string{"nor", "vik", "al", "ta", "mo", "rin", "bel", "kas", "tor", "lu", "fen", "dra", "ost", "pel", "quin", "zar"}
	colours := []string{"black", "white", "red", "blue", "green", "grey", "sand", "olive"}
	pick := func(of []string) string { return of[random.IntN(len(of))] }
	things, names := sample.Products(), make([]catalogueName, n)
	for i := range names {
		thing := things[i%len(things)]
		maker := pick(syllables) + pick(syllables) + pick(syllables)
		names[i] = catalogueName{thing.Name + " " + maker + " " + pick(colours) + " " + strconv.Itoa(10+random.IntN(90)), thing.Category}
	}
	return names
}

func randomVector(random *rand.Rand, dimensions int) []float32 {
	v := make([]float32, dimensions)
	for i := range v {
		v[i] = float32(random.NormFloat64())
	}
	return v
}

// makeUsers gives each user a profile.
func (r *recommendRun) makeUsers() {
	kinds := len(sample.Products())
	for user := range int32(r.Users) {
		interests := make([]int, r.Interests)
		for i := range interests {
			interests[i] = r.random.IntN(min(kinds, r.Products))
		}
		mix := make([]float64, r.Dimensions)
		for range 1 + r.random.IntN(8) {
			id := 1 + r.random.IntN(r.Products)
			if len(interests) > 0 {
				kind := interests[r.random.IntN(len(interests))]
				id = 1 + kind + kinds*r.random.IntN((r.Products-1-kind)/kinds+1)
			}
			_, unit, _ := r.products.Product(int32(id))
			floats.AddScaled(mix, 0.2+r.random.Float64(), unit)
		}
		floats.Scale(1/floats.Norm(mix, 2), mix)
		r.profiles[user+1] = &profile.Profile{UserID: user + 1, Version: 1, Vector: mix, Mass: 1, Updated: 1, Model: vector.HashModel}
	}
}

// compare returns the share of the ten nearest products that recommendations have, of the
// first users. A product that is as near as the tenth counts.
func (r *recommendRun) compare(ctx context.Context) (recall float64, err error) {
	n, hits := min(r.Compared, r.Users), 0
	for user := range int32(n) {
		a, err := r.recommender.ForUser(ctx, user+1, recommend.DefaultOptions())
		if err != nil {
			return 0, err
		}
		exact := r.products.Search(index.Query{Vector: r.profiles[user+1].Vector, K: 10, Exact: true})
		for _, p := range a.Products {
			if p.Score >= exact[len(exact)-1].Score-1e-9 {
				hits++
			}
		}
	}
	return float64(hits) / float64(10*max(n, 1)), nil
}

// ask sends requests at the rate, and reports how soon they are answered.
func (r *recommendRun) ask(ctx context.Context, to *report.Report, recall float64) error {
	r.rate, r.phases = r.Rate, []phase{{"asked", r.For, nil}}
	r.send = func(ctx context.Context, _ int, due time.Time) error {
		user := 1 + r.random.Int32N(int32(r.Users))
		r.requests.Go(func() { r.request(ctx, user, due) })
		return nil
	}
	cpu := cpuTime()
	err := r.run(ctx)
	r.requests.Wait()
	if err = errors.Join(err, r.failed); err != nil {
		return err
	}
	to.Add("requests", "", float64(r.events()))
	to.Add("CPU of a request", "ms", 1000*(cpuTime()-cpu).Seconds()/float64(max(1, r.events())))
	to.Add("generator late, at most", "ms", 1000*r.late.Seconds())
	to.Latency("recommendation", r.latency)
	p99 := r.latency.Seconds(99)
	to.Expect(p99 < promisedRecommendation.Seconds(), "p99 is %s, must be below %v", report.Span(p99), promisedRecommendation)
	to.Expect(recall >= promisedRecall, "recall at 10 is %.4f, must be at least %v", recall, promisedRecall)
	return nil
}

// request asks for one user. Its latency counts from when it was due.
func (r *recommendRun) request(ctx context.Context, user int32, due time.Time) {
	a, err := r.recommender.ForUser(ctx, user, recommend.DefaultOptions())
	took := time.Since(due)
	if err == nil && len(a.Products) != 10 {
		err = fmt.Errorf("user %d is recommended %d products, not 10", user, len(a.Products))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.latency.Add(took)
	r.failed = errors.Join(r.failed, err)
}
