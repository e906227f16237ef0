package pipeline

import (
	"keyfold/engine/profile"
	"keyfold/engine/profile/processor"
	"keyfold/source/catalog"
	"keyfold/source/vector"
)

// Ports joins the application to a store of profiles, a catalogue, and the
// offline embedder for phrases. The caller adds what hears of faults and logs.
func Ports(laws processor.Config, profiles profile.Profiles, products catalog.Store) (processor.Ports, error) {
	config := catalog.DefaultConfig()
	config.Dimensions, config.Model = laws.Dimensions, laws.Model
	vectors, err := catalog.New(config, products)
	if err != nil {
		return processor.Ports{}, err
	}
	phrases, err := vector.OfflinePhrases(laws.Dimensions, profile.LearnedIn(laws.Model).Components)
	return processor.Ports{Profiles: profiles, Products: vectors, Phrases: phrases}, err
}
