package app

import (
	"time"

	"keyfold/internal/cli"
	"keyfold/service/profile/recommend"
)

// Recommend are the settings of answers with products.
type Recommend struct {
	Mix   float64  `name:"recommend-mix" default:"0.5" env:"RECOMMEND_MIX" placeholder:"SHARE" help:"The second vector's share where a request names none (EMBEDDING_SHORT_HALF_LIFE)."`
	Stale cli.Span `name:"recommend-stale" default:"10m" env:"RECOMMEND_STALE" help:"How old the last known profile may be that is answered while MongoDB is away; 0 answers 503."`
	Days  int      `name:"recommend-popular-days" default:"7" env:"RECOMMEND_POPULAR_DAYS" help:"Days whose events make a product popular."`
}

// Config returns the settings.
func (r Recommend) Config() recommend.Config {
	c := recommend.DefaultConfig()
	c.Mix, c.StaleFor, c.PopularDays = r.Mix, time.Duration(r.Stale), r.Days
	return c
}

// Check judges them.
func (r Recommend) Check() error { return r.Config().Validate() }
