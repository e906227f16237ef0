package catalog

import (
	"fmt"
	"strings"

	"keyfold/engine/profile"
)

// EmbedText returns what a product's vector is made of: the words of its name
// and of its category, whose levels ("Home/Drinkware", "electronics.smartphone",
// "Electronics > Audio") are parted by spaces. A product with neither gets
// "product" and its id, so that its vector is its own and always the same, but
// says nothing: it is near to those of other nameless products at best.
func EmbedText(p profile.Product) string {
	levels := strings.FieldsFunc(p.Category, func(r rune) bool { return strings.ContainsRune("/.>|:;,_\\", r) })
	text := strings.Join(strings.Fields(p.Name+" "+strings.Join(levels, " ")), " ")
	if text == "" {
		return fmt.Sprintf("product %d", p.ID)
	}
	return text
}
