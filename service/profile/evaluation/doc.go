// Package evaluation asks a shop's own log what keyfold's profiles are worth there, and
// which settings find more. It joins engine/profile/eval to a catalogue and vectors,
// goes through the grid of settings, and recommends only what the part to test by
// supports.
package evaluation
