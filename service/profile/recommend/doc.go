// Package recommend answers what a profile is for: which products a user would be shown.
//
// A [Recommender] ranks the products of an index by their inner product with the user's
// vector, which may be a mix with the second one, and by popularity as far as that is asked
// for, leaves out what the user has bought or met, spreads the answer over unlike products
// where that is asked for, and names the events that put each product there. Of equally near
// products the more popular ones come first. Users without a profile get what is popular.
package recommend
