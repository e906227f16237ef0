package profile_test

import (
	"fmt"

	"keyfold/engine/profile"
)

// A view today weighs twice as much as one 30 days ago: the default decay has a
// half-life of 30 days.
func ExampleConfig_Fold() {
	const day = 24 * 3600 * 1000
	c := profile.DefaultConfig()
	hats, shoes := []float64{1, 0}, []float64{0, 1}
	state := c.Fold(profile.State{}, []profile.Step{
		{Vector: hats, Weight: c.Weights[profile.ProductView], At: 0},
		{Vector: shoes, Weight: c.Weights[profile.ProductView], At: 30 * day},
	})
	fmt.Printf("hats count %.2f of shoes, mass %.3f\n", state.Vector[0]/state.Vector[1], state.Mass)
	// Output: hats count 0.50 of shoes, mass 0.336
}
