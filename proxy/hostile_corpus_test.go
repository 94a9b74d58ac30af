package proxy_test

import "strings"

// A request's head up to the fields that a row adds. {/} is the target that
// the runner puts in, {/evil} one that no origin may see.
const (
	hostLine = "Host: shop.test\r\n"
	getHead  = "GET {/} HTTP/1.1\r\n" + hostLine
	postHead = "POST {/} HTTP/1.1\r\n" + hostLine
	teHead   = postHead + "Transfer-Encoding: chunked\r\n\r\n"

	helloChunks = "5\r\nhello\r\n0\r\n\r\n"
	evilRequest = "GET {/evil} HTTP/1.1\r\n" + hostLine + crlf
	smuggledGet = "GET /evil HTTP/1.1\r\nX: abcdef"
	crlf        = "\r\n"
)

// corpus is what RFC 9112 sections 2.2, 3.2, 5, 6.3 and 11.2 warn of, and what
// has been published as working somewhere.
var corpus = []smuggled{
	// Two framings, or one that is said twice.
	{name: "a length and chunks", raw: postHead + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n" + helloChunks, status: 400},
	{name: "chunks and a length", raw: postHead + "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n" + helloChunks, status: 400},
	{name: "chunks and a length of nothing", raw: postHead + "Transfer-Encoding: chunked\r\nContent-Length: 0\r\n\r\n" + helloChunks, status: 400},
	{name: "a length that ends within a smuggled request", raw: postHead + "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + evilRequest, status: 400},
	{name: "the same length twice", raw: postHead + "Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello", status: 400},
	{name: "two lengths", raw: postHead + "Content-Length: 5\r\nContent-Length: 0\r\n\r\nhello", status: 400},
	{name: "a list of the same length", raw: postHead + "Content-Length: 5, 5\r\n\r\nhello", status: 400},
	{name: "a list of two lengths", raw: postHead + "Content-Length: 5,0\r\n\r\nhello", status: 400},
	{name: "chunked twice", raw: postHead + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n" + helloChunks, status: 501},
	{name: "chunked and identity", raw: postHead + "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n" + helloChunks, status: 501},
	{name: "chunks in HTTP/1.0", raw: "POST {/} HTTP/1.0\r\n" + hostLine + "Connection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n" + helloChunks, status: 400},
	{name: "chunks and a length in HTTP/1.0", raw: "POST {/} HTTP/1.0\r\n" + hostLine + "Connection: keep-alive\r\nTransfer-Encoding: chunked\r\nContent-Length: 15\r\n\r\n" + helloChunks, status: 400},

	// Lengths that are no number.
	{name: "a length with a sign", raw: postHead + "Content-Length: +5\r\n\r\nhello", status: 400},
	{name: "a negative length", raw: postHead + "Content-Length: -5\r\n\r\nhello", status: 400},
	{name: "a length in hex", raw: postHead + "Content-Length: 0x5\r\n\r\nhello", status: 400},
	{name: "a length with a gap", raw: postHead + "Content-Length: 0 5\r\n\r\nhello", status: 400},
	{name: "a length with a unit", raw: postHead + "Content-Length: 5;b=1\r\n\r\nhello", status: 400},
	{name: "a fraction", raw: postHead + "Content-Length: 5.0\r\n\r\nhello", status: 400},
	{name: "an empty length", raw: postHead + "Content-Length:\r\n\r\nhello", status: 400},
	{name: "a length of other digits", raw: postHead + "Content-Length: ５\r\n\r\nhello", status: 400},
	{name: "a length beyond 64 bits", raw: postHead + "Content-Length: 18446744073709551621\r\n\r\nhello", status: 400},
	{name: "a length behind a vertical tab", raw: postHead + "Content-Length: \v5\r\n\r\nhello", status: 400},
	{name: "a huge length", raw: postHead + "Content-Length: 9223372036854775807\r\n\r\nhello", status: 499, cut: true},
	{name: "a body that ends early", raw: postHead + "Content-Length: 500\r\n\r\nhello", status: 499, cut: true},
	{name: "a length with leading zeros", raw: postHead + "Content-Length: 005\r\n\r\nhello", status: 200, body: "hello"},
	{name: "a length among spaces and tabs", raw: postHead + "Content-Length:\t 5 \t\r\n\r\nhello", status: 200, body: "hello"},
	{name: "a length in small letters", raw: postHead + "content-length: 5\r\n\r\nhello", status: 200, body: "hello"},

	// Codings that are not quite "chunked".
	{name: "xchunked", raw: postHead + "Transfer-Encoding: xchunked\r\n\r\n" + helloChunks, status: 501},
	{name: "identity", raw: postHead + "Transfer-Encoding: identity\r\n\r\n" + helloChunks, status: 501},
	{name: "chunked, identity", raw: postHead + "Transfer-Encoding: chunked, identity\r\n\r\n" + helloChunks, status: 501},
	{name: "identity, chunked", raw: postHead + "Transfer-Encoding: identity, chunked\r\n\r\n" + helloChunks, status: 501},
	{name: "gzip, chunked", raw: postHead + "Transfer-Encoding: gzip, chunked\r\n\r\n" + helloChunks, status: 501},
	{name: "chunked with a comma", raw: postHead + "Transfer-Encoding: chunked,\r\n\r\n" + helloChunks, status: 501},
	{name: "chunked with a parameter", raw: postHead + "Transfer-Encoding: chunked;a=b\r\n\r\n" + helloChunks, status: 501},
	{name: "chunked in quotes", raw: postHead + "Transfer-Encoding: \"chunked\"\r\n\r\n" + helloChunks, status: 501},
	{name: "chunked behind a foreign space", raw: postHead + "Transfer-Encoding: \u00a0chunked\r\n\r\n" + helloChunks, status: 501},
	{name: "an empty coding", raw: postHead + "Transfer-Encoding:\r\n\r\n" + helloChunks, status: 501},
	{name: "an empty coding and a length", raw: postHead + "Transfer-Encoding:\r\nContent-Length: 5\r\n\r\nhello", status: 501},
	{name: "chunked behind a vertical tab", raw: postHead + "Transfer-Encoding: \vchunked\r\n\r\n" + helloChunks, status: 400},
	{name: "chunked before a NUL", raw: postHead + "Transfer-Encoding: chunked\x00\r\n\r\n" + helloChunks, status: 400},
	{name: "chunked before a CR", raw: postHead + "Transfer-Encoding: chunked\r\r\n\r\n" + helloChunks, status: 400},
	{name: "Chunked", raw: postHead + "Transfer-Encoding: Chunked\r\n\r\n" + helloChunks, status: 200, body: "hello"},
	{name: "chunked among spaces and tabs", raw: postHead + "transfer-encoding:\t chunked \t\r\n\r\n" + helloChunks, status: 200, body: "hello"},
	{name: "a coding with an underscore", raw: postHead + "Transfer_Encoding: gzip\r\nContent-Length: 5\r\n\r\nhello", status: 200, body: "hello"},
	{name: "a length with an underscore", raw: postHead + "Content_Length: 9\r\nContent-Length: 5\r\n\r\nhello", status: 200, body: "hello"},
	{name: "a coding for the next hop's X-", raw: postHead + "X-Transfer-Encoding: gzip\r\nContent-Length: 5\r\n\r\nhello", status: 200, body: "hello"},

	// Field lines that end, fold or are named as they must not.
	{name: "a space before the colon of a length", raw: postHead + "Content-Length : 5\r\n\r\nhello", status: 400},
	{name: "a space before the colon of a coding", raw: postHead + "Transfer-Encoding : chunked\r\n\r\n" + helloChunks, status: 400},
	{name: "a tab before the colon of a coding", raw: postHead + "Transfer-Encoding\t: chunked\r\n\r\n" + helloChunks, status: 400},
	{name: "a control character before a coding", raw: postHead + "\x01Transfer-Encoding: chunked\r\n\r\n" + helloChunks, status: 400},
	{name: "a fold before the first field", raw: "POST {/} HTTP/1.1\r\n Transfer-Encoding: chunked\r\n" + hostLine + crlf + helloChunks, status: 400},
	{name: "a folded coding", raw: postHead + "Transfer-Encoding:\r\n chunked\r\n\r\n" + helloChunks, status: 400},
	{name: "a folded length", raw: postHead + "Content-Length:\r\n\t5\r\n\r\nhello", status: 400},
	{name: "a coding that is another field's fold", raw: postHead + "X: y\r\n Transfer-Encoding: chunked\r\n\r\n", status: 400},
	{name: "a folded cookie", raw: getHead + "Cookie: a=1;\r\n b=2\r\n\r\n", status: 400},
	{name: "a fold of nothing", raw: getHead + "X: y\r\n \r\n\r\n", status: 400},
	{name: "a CR within a value", raw: postHead + "X: y\rTransfer-Encoding: chunked\r\n\r\n" + helloChunks, status: 400},
	{name: "a CR within a name", raw: postHead + "X\r: y\r\n\r\n", status: 400},
	{name: "a NUL within a value", raw: getHead + "X: y\x00z\r\n\r\n", status: 400},
	{name: "a NUL within a name", raw: getHead + "X\x00: y\r\n\r\n", status: 400},
	{name: "a DEL within a value", raw: getHead + "X: y\x7f\r\n\r\n", status: 400},
	{name: "a name with a parenthesis", raw: getHead + "(x): y\r\n\r\n", status: 400},
	{name: "a name that begins with a colon", raw: getHead + ":path: /evil\r\n\r\n", status: 400},
	{name: "a name with a space", raw: getHead + "X y: z\r\n\r\n", status: 400},
	{name: "no name", raw: getHead + ": z\r\n\r\n", status: 400},
	{name: "no colon", raw: getHead + "X\r\n\r\n", status: 400},
	{name: "a field of 32 KiB", raw: getHead + "X: " + strings.Repeat("x", 32<<10) + "\r\n\r\n", status: 200},
	{name: "lines that end in LF", raw: strings.ReplaceAll(postHead, "\r", "") + "Content-Length: 5\n\nhello", status: 200, body: "hello"},
	{name: "a coding behind a lone LF", raw: postHead + "X: y\nTransfer-Encoding: chunked\r\n\r\n" + helloChunks, status: 200, body: "hello"},
	{name: "a second length behind a lone LF", raw: postHead + "X: y\nContent-Length: 0\r\nContent-Length: 5\r\n\r\nhello", status: 400},
	{name: "a head that a lone LF ends", raw: postHead + "\n", status: 200},

	// Chunks.
	{name: "a chunk with an extension", raw: teHead + "5;a=b;c=\"d\"\r\nhello\r\n0;e\r\n\r\n", status: 200, body: "hello"},
	{name: "a chunk size with zeros and capitals", raw: teHead + "000A\r\nhellohello\r\n000\r\n\r\n", status: 200, body: "hellohello"},
	{name: "a chunk size before a space", raw: teHead + "5 \r\nhello\r\n0\r\n\r\n", status: 200, body: "hello"},
	{name: "a chunk size behind a space", raw: teHead + " 5\r\nhello\r\n0\r\n\r\n", status: 400},
	{name: "a chunk size in C", raw: teHead + "0x5\r\nhello\r\n0\r\n\r\n", status: 400},
	{name: "a chunk size with a sign", raw: teHead + "+5\r\nhello\r\n0\r\n\r\n", status: 400},
	{name: "a negative chunk size", raw: teHead + "-1\r\nhello\r\n0\r\n\r\n", status: 400},
	{name: "a chunk size beyond 64 bits", raw: teHead + "10000000000000005\r\nhello\r\n0\r\n\r\n", status: 400},
	{name: "a chunk size of almost 64 bits", raw: teHead + "ffffffffffffffff\r\nhello\r\n0\r\n\r\n", status: 499, cut: true},
	{name: "no chunk size", raw: teHead + "\r\nhello\r\n0\r\n\r\n", status: 400},
	{name: "a chunk that is longer than its size", raw: teHead + "3\r\nhello\r\n0\r\n\r\n", status: 400},
	{name: "a chunk that is shorter than its size", raw: teHead + "7\r\nhello\r\n0\r\n\r\n" + evilRequest, status: 400},
	{name: "a CR alone behind a chunk", raw: teHead + "5\r\nhello\r0\r\n\r\n", status: 400},
	{name: "an LF alone behind a chunk", raw: teHead + "5\r\nhello\n0\r\n\r\n", status: 400},
	{name: "an LF alone behind a chunk size", raw: teHead + "5\nhello\r\n0\r\n\r\n", status: 400},
	{name: "a CR in a chunk extension", raw: teHead + "5;a\rb\r\nhello\r\n0\r\n\r\n", status: 400},
	{name: "an LF in a chunk extension", raw: teHead + "5;a\nb\r\nhello\r\n0\r\n\r\n", status: 400},
	{name: "a request in a chunk extension", raw: teHead + "5;\n0\r\n\r\n" + evilRequest, status: 400},
	{name: "a chunk extension without end", raw: teHead + "5;" + strings.Repeat("a", 8<<10) + "\r\nhello\r\n0\r\n\r\n", status: 400},
	{name: "no line behind the last chunk", raw: teHead + "5\r\nhello\r\n0\r\n", status: 400},
	{name: "chunks that break off", raw: teHead + "5\r\nhel", status: 499, cut: true},
	{name: "a request behind a broken chunk", raw: teHead + "zz\r\n" + evilRequest, status: 400},
	{name: "a coding in a trailer", raw: teHead + "5\r\nhello\r\n0\r\nTransfer-Encoding: chunked\r\n\r\n", status: 200, body: "hello"},
	{name: "a length in a trailer", raw: teHead + "5\r\nhello\r\n0\r\nContent-Length: 50\r\n\r\n", status: 200, body: "hello"},
	{name: "a Host and a cookie in a trailer", raw: teHead + "5\r\nhello\r\n0\r\nHost: evil.test\r\nCookie: sid=evil\r\n\r\n", status: 200, body: "hello"},
	{name: "an announced length in a trailer", raw: postHead + "Transfer-Encoding: chunked\r\nTrailer: Content-Length\r\n\r\n5\r\nhello\r\n0\r\nContent-Length: 50\r\n\r\n", status: 400},
	{name: "an announced cookie in a trailer", raw: postHead + "Transfer-Encoding: chunked\r\nTrailer: Cookie\r\n\r\n5\r\nhello\r\n0\r\nCookie: sid=evil\r\n\r\n", status: 200, body: "hello"},
	{name: "a trailer that is no field", raw: teHead + "5\r\nhello\r\n0\r\nGET {/evil} HTTP/1.1\r\n\r\n", status: 400},

	// Request lines.
	{name: "HTTP/0.9", raw: "GET {/}\r\n", status: 400},
	{name: "HTTP/1.2", raw: strings.Replace(getHead, "1.1", "1.2", 1) + crlf, status: 200},
	{name: "HTTP/2.0 in text", raw: strings.Replace(getHead, "1.1", "2.0", 1) + crlf, status: 505},
	{name: "http/1.1 in small letters", raw: strings.Replace(getHead, "HTTP", "http", 1) + crlf, status: 400},
	{name: "a version with a zero", raw: strings.Replace(getHead, "1.1", "01.1", 1) + crlf, status: 400},
	{name: "a version and a space", raw: strings.Replace(getHead, "1.1", "1.1 ", 1) + crlf, status: 400},
	{name: "two spaces", raw: strings.Replace(getHead, " ", "  ", 1) + crlf, status: 400},
	{name: "tabs for spaces", raw: "GET\t{/}\tHTTP/1.1\r\n" + hostLine + crlf, status: 400},
	{name: "a space in the target", raw: strings.Replace(getHead, "{/}", "{/} {/evil}", 1) + crlf, status: 400},
	{name: "a CR in the target", raw: strings.Replace(getHead, "{/}", "{/}\r{/evil}", 1) + crlf, status: 400},
	{name: "a NUL in the target", raw: strings.Replace(getHead, "{/}", "{/}\x00", 1) + crlf, status: 400},
	{name: "a method in small letters", raw: "get {/} HTTP/1.1\r\n" + hostLine + crlf, status: 200},
	{name: "a method with a parenthesis", raw: "GE(T {/} HTTP/1.1\r\n" + hostLine + crlf, status: 400},
	{name: "a method without end", raw: strings.Repeat("A", 100<<10) + " {/} HTTP/1.1\r\n" + hostLine + crlf, status: 431},
	{name: "a target without end", raw: "GET {/}" + strings.Repeat("a", 100<<10) + " HTTP/1.1\r\n" + hostLine + crlf, status: 431},
	{name: "the preface of HTTP/2", raw: "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", status: 400},
	{name: "an empty line first", raw: crlf + getHead + crlf, status: 400},
	{name: "bytes of no meaning", raw: "\x80\x81\x82\xff\xfe\r\n\r\n", status: 400},

	// Hosts.
	{name: "no Host", raw: "GET {/} HTTP/1.1\r\nX: y\r\n\r\n", status: 400},
	{name: "Host twice", raw: getHead + hostLine + crlf, status: 400},
	{name: "two Hosts", raw: getHead + "Host: evil.test\r\n\r\n", status: 400},
	{name: "a Host and a space", raw: "GET {/} HTTP/1.1\r\nHost: shop.test evil.test\r\n\r\n", status: 400},
	{name: "a Host and a control character", raw: "GET {/} HTTP/1.1\r\nHost: shop.test\x01\r\n\r\n", status: 400},
	{name: "a Host with a user name", raw: "GET {/} HTTP/1.1\r\nHost: a@evil.test\r\n\r\n", status: 400},
	{name: "a Host with a path", raw: "GET {/} HTTP/1.1\r\nHost: shop.test/evil\r\n\r\n", status: 400},
	{name: "a Host with a port that is a user name", raw: "GET {/} HTTP/1.1\r\nHost: shop.test:80@evil.test\r\n\r\n", status: 400},
	{name: "a Host in capitals with a dot and a port", raw: "GET {/} HTTP/1.1\r\nHost: SHOP.test.:443\r\n\r\n", status: 200},
	{name: "an empty Host", raw: "GET {/} HTTP/1.1\r\nHost:\r\n\r\n", status: 200},

	// Fields of the hop.
	{name: "Connection names the length", raw: postHead + "Connection: Content-Length\r\nContent-Length: 5\r\n\r\nhello", status: 200, body: "hello"},
	{name: "Connection names the coding", raw: postHead + "Connection: Transfer-Encoding\r\nTransfer-Encoding: chunked\r\n\r\n" + helloChunks, status: 200, body: "hello"},
	{name: "Connection names Host and Cookie", raw: getHead + "Connection: host, cookie, close-not\r\nCookie: a=1\r\n\r\n", status: 200},
	{name: "an upgrade to h2c", raw: getHead + "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n\r\n", status: 200},
	{name: "an upgrade to h2c with a body", raw: postHead + "Connection: Upgrade\r\nUpgrade: websocket, h2c\r\nContent-Length: 5\r\n\r\nhello", status: 200, body: "hello"},
	{name: "an upgrade without Connection", raw: getHead + "Upgrade: websocket\r\n\r\n", status: 200},

	// Expect.
	{name: "an expectation that is met", raw: postHead + "Expect: 100-continue\r\nContent-Length: 5\r\n\r\nhello", status: 200, body: "hello"},
	{name: "an expectation of a bodiless request", raw: getHead + "Expect: 100-continue\r\n\r\n", status: 200},
	{name: "an expectation of chunks", raw: postHead + "Expect: 100-Continue\r\nTransfer-Encoding: chunked\r\n\r\n" + helloChunks, status: 200, body: "hello"},

	// Bodies where many servers look for none.
	{name: "GET with a body", raw: getHead + "Content-Length: 5\r\n\r\nhello", status: 200, body: "hello"},
	{name: "GET with a request for a body", raw: getHead + "Content-Length: 29\r\n\r\n" + smuggledGet, status: 200, body: smuggledGet},
	{name: "GET with chunks", raw: getHead + "Transfer-Encoding: chunked\r\n\r\n" + helloChunks, status: 200, body: "hello"},
	{name: "DELETE with a body", raw: "DELETE {/} HTTP/1.1\r\n" + hostLine + "Content-Length: 5\r\n\r\nhello", status: 200, body: "hello"},
	{name: "HEAD with a body", raw: "HEAD {/} HTTP/1.1\r\n" + hostLine + "Content-Length: 5\r\n\r\nhello", status: 200, body: "hello"},
	{name: "POST without a body", raw: postHead + crlf, status: 200},
	{name: "a request behind a whole body", raw: postHead + "Content-Length: 5\r\n\r\nhello", status: 200, body: "hello"},
	{name: "a request behind whole chunks", raw: teHead + helloChunks, status: 200, body: "hello"},
}
