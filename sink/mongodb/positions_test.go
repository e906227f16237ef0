package mongodb

import (
	"testing"

	"keyfold/sink/sinktest"
)

func TestPositions(t *testing.T) {
	parallel(t)
	sinktest.Positions(t, start(t))
}
