// Package page is what users see of their preferences: a page that shows and changes them, and
// one that unsubscribes with one click (RFC 8058). Both are plain HTML, without a script. The
// token in a page's address is all that it asks for; see package link.
//
//	page.go         requests and answers
//	unsubscribe.go  one topic, one channel
//	form.go         preferences as the fields of a form, and back
//	merge.go        what becomes of a form that was made from former preferences
//	view.go         what the templates show
package page
