package rule

import _ "embed"

//go:embed default.json
var shipped []byte

// Default returns the shipped set's document.
func Default() []byte { return shipped }
