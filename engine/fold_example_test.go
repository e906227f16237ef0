package engine_test

import (
	"fmt"

	"keyfold/engine"
)

// A view today weighs twice as much as one 30 days ago: the default decay has a
// half-life of 30 days.
func ExampleConfig_Fold() {
	const day = 24 * 3600 * 1000
	c := engine.DefaultConfig()
	hats, shoes := []float64{1, 0}, []float64{0, 1}
	profile := c.Fold(engine.State{}, []engine.Step{
		{Vector: hats, Weight: c.Weights.View, At: 0},
		{Vector: shoes, Weight: c.Weights.View, At: 30 * day},
	})
	fmt.Printf("hats count %.2f of shoes, mass %.3f\n", profile.Vector[0]/profile.Vector[1], profile.Mass)
	// Output: hats count 0.50 of shoes, mass 0.336
}
