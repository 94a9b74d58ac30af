// Package captcha gets solved captcha tokens for the forms of declared sites,
// and sees that none is used twice, sent too late, or paid for beyond what the
// operator allows.
//
// A [Pool] answers a [Task] with a token: from what is ready in its [Store],
// else by having a [Solver] solve it on one of the plan's threads. The store
// shares tokens, threads and budgets between proxies: [NewMemory] is one
// process's own, package redispool shares them on Redis, and storetest is the
// contract of both. Package captchaai talks to the service, and captchatest
// stands in for it and for a site's verifier.
//
// Which form needs a token, and how it gets into the form, is not decided
// here. Metrics and audit are functions that the caller gives.
package captcha
