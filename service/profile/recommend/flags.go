package recommend

import "keyfold/internal/cli"

// Flags are those of `recommend` in both programs.
type Flags struct {
	ID         cli.UserID `arg:"" help:"The user's id."`
	K          int        `name:"k" default:"10" help:"How many products at most."`
	Exclude    string     `default:"none" enum:"none,bought,seen" help:"Leave out what the user has bought, or has any event of: none, bought or seen."`
	Category   string     `help:"Products of this category alone."`
	Diversity  float64    `default:"0" help:"0: the nearest; towards 1: products that are unlike each other."`
	Popularity float64    `default:"0" placeholder:"SHARE" help:"The share that the popularity of the last days has of the score."`
	Mix        float64    `default:"-1" placeholder:"SHARE" help:"The second vector's share (EMBEDDING_SHORT_HALF_LIFE); an even mix by default, where there is one."`
}

// Help is the long text.
func (f *Flags) Help() string {
	return `The products whose vectors are nearest to the user's, each with the events that put it there. A user without a profile
gets what had the most events in the last days.

Examples:
  recommend 17
  recommend 17 --exclude bought --category Shoes
  recommend 17 --k 20 --diversity 0.3
  recommend 17 --popularity 0.2`
}

// Options are those of an answer.
func (f *Flags) Options() Options {
	return Options{K: f.K, Exclude: Exclusion(f.Exclude), Category: f.Category, Diversity: f.Diversity, Mix: f.Mix, Popularity: f.Popularity, Explain: true}
}
