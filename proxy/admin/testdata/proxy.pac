// The hosts that sessionproxy declares go through it, others do not.
function FindProxyForURL(url, host) {
  var proxy = "PROXY 127.0.0.1:8080";
  var declared = [
    {host: "shop.test", below: false, port: ""},
    {host: "shop.test", below: true, port: ""},
    {host: "xn--bcher-kva.test", below: false, port: "8443"},
    {host: "lab", below: false, port: ""},
    {host: "192.0.2.1", below: false, port: ""},
    {host: "2001:db8::1", below: false, port: "8443"}];
  var parts = /^(http|ws)(s?):\/\/(?:[^\/?#@]*@)?(?:\[[^\]]*\]|[^\/?#:]*)(?::(\d+))?/i.exec(url);
  if (!parts) {
    return "DIRECT";
  }
  var port = parts[3] || (parts[2] ? "443" : "80");
  host = host.toLowerCase().replace(/^\[|\]$|\.$/g, "");
  for (var i = 0; i < declared.length; i++) {
    var d = declared[i], rest = host.length - d.host.length;
    var fits = d.below ? rest > 1 && host.slice(rest - 1) === "." + d.host : host === d.host;
    if (fits && (d.port === "" || d.port === port)) {
      return proxy;
    }
  }
  return "DIRECT";
}
