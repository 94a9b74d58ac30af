// Package captchatest stands in for the world that captchas need: a service
// that speaks the CaptchaAI protocol ([Service]) and the check that a site
// makes of a token ([Verifier]). Both are plain http.Handlers on real time, so
// that a test may run them on a socket, or on a [Pipe] under testing/synctest.
//
// The service follows the vendor's documents. Where these contradict each
// other, a [Switches] field chooses. It solves nothing: its tokens are words
// that its verifier knows.
package captchatest
