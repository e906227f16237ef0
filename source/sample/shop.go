package sample

import (
	"math/rand/v2"
	"strconv"
	"strings"

	"keyfold/engine/profile"
)

// The shop: departments with things, each thing in several qualities.
var departments = []struct {
	name   string
	things []string
}{
	{"Electronics/Audio", []string{"wireless headphones", "bluetooth speaker", "studio microphone", "turntable", "noise cancelling earbuds"}},
	{"Electronics/Computers", []string{"laptop", "mechanical keyboard", "ultrawide monitor", "docking station", "ergonomic mouse"}},
	{"Sports/Running", []string{"trail running shoes", "running socks", "hydration vest", "sports watch", "headlamp"}},
	{"Sports/Cycling", []string{"road bike", "bike helmet", "cycling jersey", "bike lock", "tyre pump"}},
	{"Home/Kitchen", []string{"espresso machine", "chef knife", "cast iron pan", "stand mixer", "coffee grinder"}},
	{"Home/Garden", []string{"garden hose", "pruning shears", "watering can", "raised bed", "compost bin"}},
	{"Books/Fiction", []string{"crime novel", "fantasy saga", "short story collection", "graphic novel", "poetry anthology"}},
	{"Toys/Games", []string{"board game", "wooden train", "jigsaw puzzle", "building blocks", "card game"}},
}

var (
	qualities = []string{"compact", "classic", "professional", "lightweight", "premium", "everyday"}
	devices   = []string{"mobile", "desktop", "tablet"}
)

// productID numbers the shop's products from 1.
func productID(department, thing, quality int) int32 {
	const perThing = 6
	before := 0
	for _, d := range departments[:department] {
		before += len(d.things)
	}
	return int32((before+thing)*perThing + quality + 1)
}

// Products returns the shop's catalogue, without vectors.
func Products() []profile.Product {
	var all []profile.Product
	for d := range departments {
		for t, thing := range departments[d].things {
			for q, quality := range qualities {
				all = append(all, profile.Product{
					ID:       productID(d, t, q),
					Name:     quality + " " + thing,
					Category: departments[d].name,
				})
			}
		}
	}
	return all
}

// phrase is what a visitor types to find a thing: its name, a part of it, or
// more than that.
func phrase(r *rand.Rand, department, thing int) string {
	name := departments[department].things[thing]
	words := strings.Fields(name)
	switch r.IntN(3) {
	case 0:
		return words[len(words)-1]
	case 1:
		return qualities[r.IntN(len(qualities))] + " " + name
	default:
		return name
	}
}

func decimal(n int32) string { return strconv.Itoa(int(n)) }
