// Package captchaai is a client of the CaptchaAI HTTP API: in.php takes a task,
// res.php has its answer. Services that speak the same protocol, which is
// 2captcha's, can be named by their URL.
//
// The protocol has no idempotency: a submission that got no clear reply may
// have been taken. The client never repeats one unseen: it asks for another
// slot first, and says so in the log. Errors that concern the account stop all
// of a client's calls for a while, so that a wrong key does not become a ban.
//
// No error, log line or formatted value holds the API key, a task's ID or a
// token. Keeping tokens, and sharing threads and budgets, is package captcha's
// part.
package captchaai
