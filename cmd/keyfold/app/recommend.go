package app

import (
	"time"

	"keyfold/internal/cli"
	"keyfold/service/profile/recommend"
)

// SearchInMongoDB is the setting by which MongoDB searches the products.
const SearchInMongoDB = "mongodb"

// Recommend are the settings of answers with products.
type Recommend struct {
	Mix         float64  `name:"recommend-mix" default:"0.5" env:"RECOMMEND_MIX" placeholder:"SHARE" help:"The second vector's share where a request names none (EMBEDDING_SHORT_HALF_LIFE)."`
	Stale       cli.Span `name:"recommend-stale" default:"10m" env:"RECOMMEND_STALE" help:"How old the last known profile may be that is answered while MongoDB is away; 0 answers 503."`
	Search      string   `name:"recommend-search" default:"memory" enum:"memory,mongodb" env:"RECOMMEND_SEARCH" help:"memory: keyfold searches the catalogue in its own memory. mongodb: by the server's $vectorSearch, which needs an index of it."`
	Index       string   `name:"recommend-index" default:"product_vectors" env:"RECOMMEND_INDEX" placeholder:"NAME" help:"Name of the index of $vectorSearch."`
	Secondaries bool     `name:"recommend-secondaries" env:"RECOMMEND_SECONDARIES" help:"Read secondaries of MongoDB, where there are any: profiles are as old as their replication."`
	Days        int      `name:"recommend-popular-days" default:"7" env:"RECOMMEND_POPULAR_DAYS" help:"Days whose events make a product popular."`
}

// Config returns the settings.
func (r Recommend) Config() recommend.Config {
	c := recommend.DefaultConfig()
	c.Mix, c.StaleFor, c.PopularDays = r.Mix, time.Duration(r.Stale), r.Days
	return c
}

// Check judges them.
func (r Recommend) Check() error { return r.Config().Validate() }
