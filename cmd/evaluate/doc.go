// Package evaluate has what the eval commands of both programs share: the flags, and how
// a report is printed as text and as a page.
package evaluate
