// Package similar compares the texts of notifications: which say the same, and
// which say nearly the same.
//
//	Of -> Print    the fingerprint of one notification, of.go
//	text.go        texts become tokens
//	lexicon.go     words that say nothing, and words of one meaning (words.txt)
//	print.go       comparison and binary form
//
// Two texts say the same if their normal forms are equal: NFC, lower case, white
// space collapsed.
//
// Near texts never differ in what tells one thing from another, the guard: the
// notification's kind, the identity values, the tokens with digits ("1001-A",
// "4,99"), signs of currencies and per cent, and codes in capitals. They never
// name different states of a thing or different days ("shipped", "delivered").
// Under this guard two measures find them. The simhash suits long texts, of which
// little differs. In a short text a new offer differs in fewer words than the same
// offer in other words: there the words that carry a meaning must be equal, and words
// that say nothing are left out.
package similar
