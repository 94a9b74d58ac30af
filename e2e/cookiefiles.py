"""Signs in, and writes the cookies to the file "out" as a tool's users do.

Usage: CHROMIUM=PATH TUNNEL=URL CA=PATH python3 cookiefiles.py selenium|requests|yt-dlp
"""

import http.cookiejar
import json
import os
import sys

LOGIN = "https://www.shop.test/login"


def selenium():
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = os.environ["CHROMIUM"]
    for argument in ["--headless", "--no-sandbox", "--proxy-server=" + os.environ["TUNNEL"]]:
        options.add_argument(argument)
    driver = webdriver.Chrome(options=options)
    driver.get(LOGIN)
    driver.get("https://www.shop.test/account")  # it lists the cookies of the page's own path
    with open("out", "w") as out:
        json.dump(driver.get_cookies(), out)
    driver.quit()


def requests():
    import requests

    session = requests.Session()
    session.cookies = http.cookiejar.MozillaCookieJar("out")
    session.get(LOGIN)
    session.cookies.save(ignore_discard=True)


def yt_dlp():
    import yt_dlp

    with yt_dlp.YoutubeDL({"cookiefile": "out", "proxy": os.environ["TUNNEL"], "compat_opts": {"no-certifi"}}) as ydl:
        ydl.urlopen(LOGIN).read()


{"selenium": selenium, "requests": requests, "yt-dlp": yt_dlp}[sys.argv[1]]()
